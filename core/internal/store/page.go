package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/shared/api"
)

// pageRow is a row of a statement that reads a chunk of a list, in the list's order, and gives the
// rows that match and the last one.
type pageRow interface {
	// Match is the row's id, whether it matches, and the size of the chunk: api.MaxPageRows for a
	// shorter one with which the page has to end.
	Match() (id uuid.UUID, hit bool, read int64)
}

// maxChunk bounds the rows that one statement reads.
const maxChunk = 2000

// ScanRows searches for want rows that match, from cursor on, in growing chunks, and leaves cursor at
// the last row that was read. It reads at most api.MaxPageRows rows, so it may find fewer, or none,
// and not be at the end.
func ScanRows[R pageRow](cursor *uuid.UUID, want int, chunk func(from uuid.UUID, limit int) ([]R, error)) (found []R, ended bool, err error) {
	size := want + 1
	for read := 0; read < api.MaxPageRows; size = min(4*size, maxChunk) {
		limit := min(size, api.MaxPageRows-read)
		rows, err := chunk(*cursor, limit)
		if err != nil {
			return nil, false, err
		}
		got := int64(0)
		for _, row := range rows {
			id, hit, of := row.Match()
			if hit && len(found) == want {
				return found, false, nil // there is more, from the last row on
			}
			*cursor, got = id, of
			if hit {
				found = append(found, row)
			}
		}
		if got < int64(limit) {
			return found, true, nil
		}
		read += max(limit, int(got))
	}
	return found, false, nil
}

// PageOf gives a page of a list: the rows of sql with args, which lack only the position and the
// length of a chunk. token is a page's NextPageToken, or empty for the first page: the id of the
// last row that was read, which may be one that the caller must not see. Package pages seals it.
func PageOf[R, T any, P interface {
	*R
	pageRow
}](ctx context.Context, s *Store, what, sql string, args Args, size int, token string, wire func(P) T) (api.Page[T], error) {
	page := api.Page[T]{Items: []T{}}
	before, err := placeIn(token)
	if err != nil {
		return page, err
	}
	found, ended, err := ScanRows(&before, size, func(from uuid.UUID, limit int) ([]P, error) {
		args["before"], args["chunk"] = from, limit
		return Query(ctx, s, func(row pgx.CollectableRow) (P, error) { return pgx.RowToAddrOfStructByName[R](row) }, sql, args)
	})
	if err != nil {
		return page, fmt.Errorf("store: %s: %w", what, NotApplied(err))
	}
	for _, row := range found {
		page.Items = append(page.Items, wire(row))
	}
	if !ended {
		next := before.String()
		page.NextPageToken = &next
	}
	return page, nil
}

// placeIn gives the start of a page: before a row's id, or the first row.
func placeIn(token string) (uuid.UUID, error) {
	if token == "" {
		return uuid.Max, nil
	}
	before, err := uuid.Parse(token)
	if err != nil {
		return uuid.UUID{}, ErrPageToken
	}
	return before, nil
}

// ErrPageToken says that the token is malformed.
var ErrPageToken = errors.New("store: malformed page token")
