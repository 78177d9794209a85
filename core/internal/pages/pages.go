// Package pages makes the pages of lists, and seals their page tokens.
package pages

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Listing is a page that is asked for. Its fields in JSON are what the page token belongs to: with
// another list, tenant, user or filter its cursor would mean something else, or reveal what the caller
// may not see.
type Listing struct {
	List   string `json:"list"`
	Kind   string `json:"kind"`
	Tenant string `json:"tenant"`
	User   string `json:"user"`
	Filter any    `json:"filter"`

	size  int
	token string
}

// ListingOf takes the page size within its bounds.
func ListingOf(list string, p hop.Principal, filter any, size int, token string) Listing {
	return Listing{List: list, Kind: p.Kind, Tenant: p.Tenant, User: p.User, Filter: filter, size: Size(size), token: token}
}

// Size is the size of a page: the size asked for, within its bounds.
func Size(asked int) int {
	if asked < 1 {
		return api.DefaultPageSize
	}
	return min(asked, api.MaxPageSize)
}

// Paged reads a page of a list, and ends it where its items reach api.MaxPageBytes. key is the cursor of an item; it is nil
// for a list whose pages end there already, or whose items are small. read takes a cursor, empty for the first page, and returns the next
// page's as its token. The page token is the cursor, sealed: encrypted, because it may be the id of a
// job that the caller may not see, and authenticated. A token that was changed, or is another
// listing's, is refused.
func Paged[T any](keys *seal.Keys, of Listing, key func(T) string, read func(cursor string, size int) (api.Page[T], error)) (api.Page[T], error) {
	where, err := json.Marshal(of)
	if err != nil {
		return api.Page[T]{}, fmt.Errorf("page token: %w", err)
	}
	cursor := ""
	if of.token != "" {
		sealed, err := base64.RawURLEncoding.Strict().DecodeString(of.token)
		if err != nil {
			return api.Page[T]{}, store.ErrPageToken
		}
		opened, _, err := keys.Open(sealed, "page "+string(where))
		if err != nil {
			return api.Page[T]{}, store.ErrPageToken
		}
		cursor = string(opened)
	}
	page, err := read(cursor, of.size)
	if err == nil && key != nil {
		err = fit(&page, key)
	}
	if err == nil && page.NextPageToken != nil {
		next := base64.RawURLEncoding.EncodeToString(keys.Seal([]byte(*page.NextPageToken), "page "+string(where)))
		page.NextPageToken = &next
	}
	return page, err
}

// Order is how the cursors of a list are written: start is before its first item, and parse reads
// what Listed's key writes.
type Order[P any] struct {
	start P
	parse func(string) (P, error)
}

// The orders of lists.
var (
	ByText     = Order[string]{parse: func(text string) (string, error) { return text, nil }}
	NewestID   = Order[uuid.UUID]{start: uuid.Max, parse: uuid.Parse}
	ByNumber   = Order[int64]{parse: func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }}
	NewestInt  = Order[int]{start: math.MaxInt32, parse: strconv.Atoi}
	NewestTime = Order[*time.Time]{parse: func(text string) (*time.Time, error) {
		micros, err := strconv.ParseInt(text, 10, 64)
		return new(time.UnixMicro(micros)), err
	}}
)

// Listed reads a page of a list that is read by a limit: one item more than the page says that there is
// a next page. key is the cursor of an item.
func Listed[T, P any](keys *seal.Keys, of Listing, by Order[P], key func(T) string, read func(after P, limit int) ([]T, error)) (api.Page[T], error) {
	return Paged(keys, of, key, func(cursor string, size int) (api.Page[T], error) {
		after := by.start
		if cursor != "" {
			var err error
			if after, err = by.parse(cursor); err != nil {
				return api.Page[T]{}, store.ErrPageToken
			}
		}
		found, err := read(after, size+1)
		return Cut(found, size, key), err
	})
}

// Cut makes a page of a list that was read with one item more than size.
func Cut[T any](found []T, size int, key func(T) string) api.Page[T] {
	made := api.Page[T]{Items: found}
	if found == nil {
		made.Items = []T{}
	}
	if len(found) > size {
		made.Items = found[:size]
		next := key(found[size-1])
		made.NextPageToken = &next
	}
	return made
}

// fit ends a page with the item with which it reaches api.MaxPageBytes.
func fit[T any](page *api.Page[T], key func(T) string) error {
	bytes := 0
	for i := range page.Items {
		text, err := answers.JSON(&page.Items[i])
		if err != nil {
			return err
		}
		if bytes += len(text); bytes >= api.MaxPageBytes && i+1 < len(page.Items) {
			page.Items, page.NextPageToken = page.Items[:i+1], new(key(page.Items[i]))
			return nil
		}
	}
	return nil
}
