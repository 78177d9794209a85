package read

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// scanAfter reads the next chunk of one table, oldest id first.
const scanAfter = `tenant_id = @tenant_id AND uuid_send(id) > uuid_send(@cursor::uuid) ORDER BY uuid_send(id) LIMIT @chunk`

const (
	scanHead = `
WITH chunk AS MATERIALIZED (`
	scanLive  = `SELECT ` + BriefColumns + ` FROM jobs WHERE ` + scanAfter
	scanEnded = `SELECT * FROM (
    (SELECT ` + BriefDeadColumns + ` FROM dead_letters WHERE ` + scanAfter + `)
    UNION ALL
    (SELECT ` + briefFinishedColumns + ` FROM finished_jobs WHERE ` + scanAfter + `)
  ) AS ended
  ORDER BY uuid_send(id)
  LIMIT @chunk`
	scanTail = `)
SELECT * FROM (
  SELECT *, COALESCE(` + listMatches + ` AND created_at <= @by, false) AS hit,
         lead(id) OVER (ORDER BY uuid_send(id)) IS NULL AS last,
         count(*) OVER () AS read
  FROM chunk
) AS judged
WHERE hit OR last
ORDER BY uuid_send(id)`

	scanLiveSQL  = scanHead + scanLive + scanTail
	scanEndedSQL = scanHead + scanEnded + scanTail

	// what a filter asks for, of one table
	countLiveSQL  = countHead + `state FROM jobs` + countTail
	countEndedSQL = countHead + `state FROM finished_jobs` + countTail
	countDeadSQL  = countHead + `'dead_letter'::text AS state FROM dead_letters` + countTail

	countHead = `
WITH chunk AS MATERIALIZED (SELECT id, queue, type, user_id, tags, dedupe_key, key, metadata, created_at, `
	countTail = ` WHERE tenant_id = @tenant_id ORDER BY uuid_send(id) LIMIT @chunk)
SELECT count(*) FILTER (WHERE ` + listMatches + `) AS matched, count(*) AS read FROM chunk`
)

// Scan finds up to want of a tenant's live jobs, or of those that have ended, that match and were created by a time; the oldest id first,
// after cursor, which it leaves at the last one that was read. It reads a bounded number of rows: it may find none, and not be at the end.
func Scan(ctx context.Context, db store.Querier, owner tenant.ID, filter api.JobFilter, ended bool, by any, cursor *uuid.UUID, want int) (found []*Listed, done bool, err error) {
	statement, args := scanLiveSQL, listArgs(owner, filter)
	if ended {
		statement = scanEndedSQL
	}
	args["by"] = by
	return store.ScanRows(cursor, want, func(from uuid.UUID, limit int) ([]*Listed, error) {
		args["cursor"], args["chunk"] = from, limit
		rows, err := db.Query(ctx, statement, args)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[Listed])
	})
}

// mostCounted is how many jobs of a table Count reads.
const mostCounted = 100_000

// Count counts a tenant's live jobs, or those that have ended, that match, among the oldest 100,000 of each table.
func Count(ctx context.Context, db store.Querier, owner tenant.ID, filter api.JobFilter, ended bool) (found api.Matched, err error) {
	statements := []string{countLiveSQL}
	if ended {
		statements = []string{countEndedSQL, countDeadSQL}
	}
	args := listArgs(owner, filter)
	args["chunk"] = mostCounted + 1
	for _, statement := range statements {
		rows, err := db.Query(ctx, statement, args)
		if err != nil {
			return found, err
		}
		counted, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[struct{ Matched, Read int64 }])
		if err != nil {
			return found, err
		}
		found.Matched, found.MatchedCapped = found.Matched+counted.Matched, found.MatchedCapped || counted.Read > mostCounted
	}
	return found, nil
}
