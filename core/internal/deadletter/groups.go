package deadletter

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// deadMatches is a filter of dead letters. The caller applies it to a bounded number of a tenant's
// rows: no index serves every filter, and each would cost every dead letter a write.
const deadMatches = read.QueueMatches + `
    AND (@type::text IS NULL OR type = @type)
    AND (@user::text IS NULL OR user_id = @user)
    AND (@reason::text IS NULL OR reason = @reason)
    AND (@fingerprint::text IS NULL OR fingerprint = @fingerprint)
    AND (@after::timestamptz IS NULL OR died_at > @after)
    AND (@until::timestamptz IS NULL OR died_at < @until)`

func deadArgs(owner tenant.ID, user string, filter api.DeadLetterFilter) store.Args {
	return store.Args{
		"tenant_id": owner, "queue": store.NullIfEmpty(filter.Queue), "type": store.NullIfEmpty(filter.Type), "user": store.NullIfEmpty(user),
		"reason": store.NullIfEmpty(filter.Reason), "fingerprint": store.NullIfEmpty(filter.Fingerprint),
		"after": store.TimeOrNil(filter.After), "until": store.TimeOrNil(filter.Before),
	}
}

// newestDead is the newest part of a tenant's dead letters, which is counted and grouped.
const newestDead = `newest AS MATERIALIZED (
  SELECT id, queue, type, user_id, reason, fingerprint, died_at
  FROM dead_letters
  WHERE tenant_id = @tenant_id
  ORDER BY uuid_send(id) DESC
  LIMIT @most
)`

const countMatchingSQL = `
WITH ` + newestDead + `
SELECT count(*) FILTER (WHERE ` + deadMatches + `) AS matched, count(*) AS read FROM newest`

// Matching counts a tenant's dead letters that match, among the newest
// api.MaxDeadLetterRows.
func (s *Letters) Matching(ctx context.Context, owner tenant.ID, user string, filter api.DeadLetterFilter) (api.Matched, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	conn, err := s.Acquire(ctx)
	if err != nil {
		return api.Matched{}, err
	}
	defer conn.Release()
	found, err := matching(ctx, conn, owner, user, filter)
	if err != nil {
		return found, fmt.Errorf("deadletter: matching: %w", store.NotApplied(store.Classify(err)))
	}
	return found, nil
}

func matching(ctx context.Context, db store.Querier, owner tenant.ID, user string, filter api.DeadLetterFilter) (api.Matched, error) {
	args := deadArgs(owner, user, filter)
	args["most"] = api.MaxDeadLetterRows + 1
	rows, err := db.Query(ctx, countMatchingSQL, args)
	if err != nil {
		return api.Matched{}, err
	}
	var read int64
	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (api.Matched, error) {
		var m api.Matched
		err := row.Scan(&m.Matched, &read)
		return m, err
	})
	found.MatchedCapped = read > api.MaxDeadLetterRows
	return found, err
}

// groupsSQL groups the matching dead letters, largest group first. The example is the newest job of
// a group; max() has no uuid, and text in the "C" collation has the same order.
const groupsSQL = `
WITH ` + newestDead + `, grouped AS (
  SELECT fingerprint, queue, type, reason, count(*) AS count, min(died_at) AS first_died_at, max(died_at) AS last_died_at,
         max(id::text COLLATE "C")::uuid AS example
  FROM newest
  WHERE ` + deadMatches + `
  GROUP BY fingerprint, queue, type, reason
), largest AS (
  SELECT *, count(*) OVER () AS groups FROM grouped ORDER BY count DESC, fingerprint, queue LIMIT @size
)
-- a look-up for each, never a join, which could be planned as a scan of all
SELECT largest.*, (SELECT last_error FROM dead_letters d WHERE d.id = largest.example) AS last_error, totals.read
FROM (SELECT count(*) AS read FROM newest) AS totals LEFT JOIN largest ON true
ORDER BY largest.count DESC, largest.fingerprint, largest.queue`

// groupRow is a group; without any group there is one row, in which all but Read are nil.
type groupRow struct {
	Fingerprint, Queue, Type, Reason *string
	Count                            *int64
	FirstDiedAt, LastDiedAt          *time.Time
	Example                          *uuid.UUID
	Groups                           *int64
	LastError                        []byte
	Read                             int64
}

// DeadLetterGroups gives the largest groups of a tenant's dead letters that match,
// at most size, among the newest api.MaxDeadLetterRows. user, where not empty, is the
// only user whose jobs the caller may see.
func (s *Letters) DeadLetterGroups(ctx context.Context, owner tenant.ID, user string, filter api.DeadLetterFilter, size int) (api.DeadLetterGroups, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	groups := api.DeadLetterGroups{Items: []api.DeadLetterGroup{}}
	args := deadArgs(owner, user, filter)
	// One more row is read than shown, to know whether there are more.
	args["most"], args["size"] = api.MaxDeadLetterRows+1, size
	rows, err := store.Query(ctx, s.Store, pgx.RowToAddrOfStructByName[groupRow], groupsSQL, args)
	if err != nil {
		return groups, fmt.Errorf("deadletter: groups: %w", store.NotApplied(err))
	}
	for _, row := range rows {
		groups.Read, groups.ReadCapped = min(row.Read, api.MaxDeadLetterRows), row.Read > api.MaxDeadLetterRows
		if row.Fingerprint == nil {
			continue
		}
		groups.Groups = *row.Groups
		group := api.DeadLetterGroup{
			Fingerprint: *row.Fingerprint, Queue: *row.Queue, Type: *row.Type, Reason: *row.Reason,
			Count: *row.Count, CountCapped: groups.ReadCapped,
			FirstDiedAt: api.At(*row.FirstDiedAt), LastDiedAt: api.At(*row.LastDiedAt),
			Example: api.DeadLetterExample{JobID: row.Example.String()},
		}
		if len(row.LastError) > 0 {
			group.Example.Error = &api.JobError{}
			_ = json.Unmarshal(row.LastError, group.Example.Error) // written from such a value by this package alone
		}
		groups.Items = append(groups.Items, group)
	}
	return groups, nil
}
