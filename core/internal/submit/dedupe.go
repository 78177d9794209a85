package submit

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// insertJobs stores what is not refused and returns a result for each job; amended says that live jobs were replaced, and have appended
// checks of their keys. It belongs in a transaction: an error leaves some jobs stored.
func insertJobs(ctx context.Context, tx pgx.Tx, submissions []Submission) (results [][]JobResult, amended bool, err error) {
	results, waiting := openAll(submissions)
	// A live job with the same dedupe_key may end between the insert, which it
	// stops, and the look-up, which then does not find it; then the insert is
	// tried again. Each round needs another such coincidence.
	const rounds = 5
	for round := 0; round < rounds && len(waiting) > 0; round++ {
		statement := insertDedupedSQL
		if anyLinked(submissions) || slices.ContainsFunc(submissions, func(s Submission) bool { return s.RerunOf != nil }) {
			statement = insertLinkedSQL
		}
		missing, err := insertOnce(ctx, tx, statement, submissions, waiting, results)
		if err != nil {
			return nil, false, err
		}
		if len(missing) == 0 {
			waiting = nil
			break
		}
		if err := settleMissing(ctx, tx, submissions, missing, results); err != nil {
			return nil, false, err
		}
		freed, err := takeBack(ctx, tx, submissions, results)
		if err != nil {
			return nil, false, err
		}
		waiting = append(stillOpen(missing, results), freed...)
	}
	for len(waiting) > 0 { // each time fewer jobs are stored that could be taken back
		for _, p := range waiting {
			results[p.submission][p.job].Refused = problem.New(problem.Overloaded,
				"The live job with this dedupe_key changed several times during the request. Try again.").WithRetryAfter(time.Second)
		}
		if waiting, err = takeBack(ctx, tx, submissions, results); err != nil {
			return nil, false, err
		}
	}
	amended, err = replaceAll(ctx, tx, submissions, results)
	return results, amended, err
}

// takeBackSQL removes jobs that the same transaction has stored.
const takeBackSQL = `DELETE FROM jobs WHERE id = ANY(@ids::uuid[])`

// takeBack removes what is stored of atomic batches of which a job was refused: by a
// later round, or because its id is taken. It gives the places of other submissions' jobs
// that were deduplicated onto what is removed: they are open again.
func takeBack(ctx context.Context, tx pgx.Tx, submissions []Submission, results [][]JobResult) (freed []place, err error) {
	var ids []uuid.UUID
	for i := range submissions {
		if !submissions[i].Atomic {
			continue
		}
		refused := slices.IndexFunc(results[i], func(r JobResult) bool { return r.Refused != nil })
		if refused < 0 {
			continue
		}
		for j := range results[i] {
			r := &results[i][j]
			if r.Row != nil && !r.Deduplicated {
				ids = append(ids, r.Row.ID)
			}
			if r.Refused == nil {
				*r = JobResult{Refused: results[i][refused].Refused}
			}
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	for i := range results {
		for j := range results[i] {
			if r := &results[i][j]; r.Deduplicated && slices.Contains(ids, r.Row.ID) {
				*r = JobResult{}
				freed = append(freed, place{i, j})
			}
		}
	}
	_, err = tx.Exec(ctx, takeBackSQL, store.Args{"ids": ids})
	return freed, err
}

func stillOpen(places []place, results [][]JobResult) []place {
	var open []place
	for _, p := range places {
		if r := results[p.submission][p.job]; r.Row == nil && r.Refused == nil {
			open = append(open, p)
		}
	}
	return open
}

// liveByDedupeSQL finds the live jobs that hold dedupe_keys. The LIMIT makes each
// key a probe of its own: with statistics of few jobs `IN (SELECT …)` reads the whole
// index instead.
const liveByDedupeSQL = `
SELECT holder.*
FROM unnest(@tenants::uuid[], @users::text[], @keys::text[]) AS asked(tenant, name, key)
CROSS JOIN LATERAL (
  SELECT ` + read.BriefColumns + `
  FROM jobs
  WHERE tenant_id = asked.tenant AND COALESCE(user_id, '') = asked.name AND dedupe_key = asked.key
    -- repeated from the index's predicate, or the planner may not use it
    AND dedupe_key IS NOT NULL
  -- the follower of a superseded job before that one
  ORDER BY superseded
  LIMIT 1
) AS holder`

type dedupeKey struct {
	tenant    tenant.ID
	user, key string
}

// settleMissing finds out why a job was not inserted: a live job has its dedupe_key,
// or it, or its atomic batch, has a deadline in the past, or its id is taken.
func settleMissing(ctx context.Context, db store.Querier, submissions []Submission, missing []place, results [][]JobResult) error {
	holders, err := dedupeHolders(ctx, db, submissions, missing)
	if err != nil {
		return err
	}
	locked, err := lockReplaced(ctx, db, submissions, missing, holders)
	if err != nil {
		return err
	}
	now, err := store.Clock(ctx, db)
	if err != nil {
		return err
	}
	var superseded []uuid.UUID
	for _, p := range missing {
		submission := &submissions[p.submission]
		newJob := &submission.Jobs[p.job]
		result := &results[p.submission][p.job]
		if newJob.replaces() && submission.late(p.job, now) {
			result.Refused = deadlinePast()
		} else if holder := holders[newJob.dedupe(submission.Tenant)]; newJob.DedupeKey != nil && holder != nil {
			if newJob.meet(holder, locked[holder.ID], result); result.Row == nil && result.Refused == nil && locked[holder.ID] != nil {
				submission.follow(p.job, locked[holder.ID])
				superseded = append(superseded, holder.ID)
			}
		} else if submission.late(p.job, now) {
			result.Refused = deadlinePast()
		} else if newJob.DedupeKey == nil {
			result.Refused = problem.New(problem.InvalidRequest, "A job with the id "+newJob.ID.String()+" already exists.")
		}
	}
	return supersede(ctx, db, superseded, true)
}

func deadlinePast() *problem.Problem {
	return problem.Invalid(problem.FieldError{Field: "deadline", Message: "must be in the future"})
}

// late says whether a deadline, the job's own or another's of its atomic batch,
// keeps the job out.
func (s *Submission) late(j int, now time.Time) bool {
	for i := range s.Jobs {
		if deadline := s.Jobs[i].Deadline; deadline != nil && (s.Atomic || i == j) && !deadline.After(now) {
			return true
		}
	}
	return false
}

func (n *NewJob) dedupe(id tenant.ID) dedupeKey {
	key := dedupeKey{tenant: id}
	if n.User != nil {
		key.user = *n.User
	}
	if n.DedupeKey != nil {
		key.key = *n.DedupeKey
	}
	return key
}

func dedupeHolders(ctx context.Context, db store.Querier, submissions []Submission, missing []place) (map[dedupeKey]*read.Row, error) {
	var tenants []tenant.ID
	var users, keys []string
	for _, p := range missing {
		newJob := &submissions[p.submission].Jobs[p.job]
		if newJob.DedupeKey != nil {
			key := newJob.dedupe(submissions[p.submission].Tenant)
			tenants, users, keys = append(tenants, key.tenant), append(users, key.user), append(keys, key.key)
		}
	}
	holders := map[dedupeKey]*read.Row{}
	if len(keys) == 0 {
		return holders, nil
	}
	rows, err := db.Query(ctx, liveByDedupeSQL, store.Args{"tenants": tenants, "users": users, "keys": keys})
	if err != nil {
		return nil, err
	}
	live, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[read.Row])
	if err != nil {
		return nil, err
	}
	for _, row := range live {
		key := dedupeKey{tenant: row.TenantID, key: *row.DedupeKey}
		if row.UserID != nil {
			key.user = *row.UserID
		}
		holders[key] = row
	}
	return holders, nil
}
