package jobs

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/budget"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/webhook/events"
	"github.com/forgequeue/forgequeue/shared/api"
)

// completeSQL moves completed jobs from the live table to the finished ones: one
// statement, so a job is always in exactly one of them. Moving measured 1.3 times
// faster than updating in place, and keeps the hot table small. Jobs with dependents, a limit by key, or costs, are left to
// completeParentsSQL: the others do not pay for them.
const completeSQL = `
WITH ended AS (
  DELETE FROM jobs
  WHERE ` + heldSQL + ` AND NOT has_dependents AND gate = 0
  RETURNING ` + read.StableColumns + `, attempt, last_error, lease_id, counted
), ` + caps.LeaveCountsSQL + completedSQL

// completeParentsSQL is completeSQL for jobs with dependents, a limit by key, costs, or a report of what they used: it appends
// their follow-ups, checks and settlements. A job that is flagged while completeSQL waits for its row is left to this statement.
const completeParentsSQL = completeParentsHead + completedSQL

const completeParentsHead = `
WITH ended AS (
  DELETE FROM jobs
  WHERE ` + heldSQL + `
  RETURNING ` + read.StableColumns + `, attempt, last_error, lease_id, counted, gate
), checked AS (
  INSERT INTO key_checks (tenant_id, queue, keys) SELECT tenant_id, queue, array_agg(DISTINCT key) FROM ended WHERE gate > 0 GROUP BY tenant_id, queue
), ` + budget.SettleEndedSQL + `, followed AS (
  INSERT INTO follow_ups (tenant_id, job_id, state, redrives, ended_at)
  SELECT tenant_id, id, 'completed', redrives, statement_timestamp() FROM ended WHERE has_dependents
), ` + caps.LeaveCountsSQL

const completedSQL = completedHead + `NULL` + completedTail

// completeChainedSQL also stores answers, which name the jobs that the outcome has submitted.
const completeChainedSQL = completeParentsHead + completedHead + `(@answers::text[])[place]::json` + completedTail

const (
	completedHead = `, told AS (
  SELECT 'job.completed'::text AS kind, ` + read.EventColumns + `, 'completed'::text AS state,
         (@results::text[])[place]::json AS result, NULL::text AS reason, statement_timestamp() AS finished_at
  FROM ended CROSS JOIN LATERAL ` + inputSQL + `
), events AS (` + events.AppendSQL + `
  RETURNING 1
), finished AS (
INSERT INTO finished_jobs (` + read.JobColumns + `, state, result, finished_at)
SELECT ` + read.StableColumns + `, attempt, last_error, lease_id, substring(@hashes::bytea FROM 32 * place - 31 FOR 32), `
	// then the answer
	completedTail = `,
       'completed', (@results::text[])[place]::json, statement_timestamp()
FROM ended CROSS JOIN LATERAL ` + inputSQL + `
RETURNING id, tenant_id, lane_id, queue, outcome_lease_id, attempt, epoch, created_at, started_at, finished_at, type, correlation_id, traceparent
)
SELECT id, tenant_id, lane_id, queue, outcome_lease_id, attempt, epoch, created_at, started_at, finished_at, EXISTS (SELECT 1 FROM events) AS told`
)

// loggedSQL also returns the attempt's fields for its log line and span.
const loggedSQL = `, type, correlation_id, traceparent`

// finishedSQL ends the statement.
const finishedSQL = ` FROM finished`

// completion is one of the two statements.
type completion struct {
	sql, logged string
	// parents says that it completes the jobs with dependents.
	parents bool
}

var (
	completeOthers  = completion{sql: completeSQL + finishedSQL, logged: completeSQL + loggedSQL + finishedSQL}
	completeParents = completion{sql: completeParentsSQL + finishedSQL, logged: completeParentsSQL + loggedSQL + finishedSQL, parents: true}
)

type completed struct {
	ID             uuid.UUID
	TenantID       tenant.ID
	LaneID         lanes.ID
	Queue          string
	OutcomeLeaseID uuid.UUID
	Attempt        int32
	Epoch          int64
	CreatedAt      time.Time
	StartedAt      *time.Time
	FinishedAt     time.Time
	// Told: events were appended, of this job or of another one of the statement.
	Told bool

	// Of loggedSQL only.
	Type                       string
	CorrelationID, Traceparent *string
}

func scanCompleted(row pgx.CollectableRow) (c completed, err error) {
	err = row.Scan(c.columns()...)
	return c, err
}

func scanCompletedLogged(row pgx.CollectableRow) (c completed, err error) {
	err = row.Scan(append(c.columns(), &c.Type, &c.CorrelationID, &c.Traceparent)...)
	return c, err
}

// columns are those of completeSQL.
func (c *completed) columns() []any {
	return []any{&c.ID, &c.TenantID, &c.LaneID, &c.Queue, &c.OutcomeLeaseID, &c.Attempt, &c.Epoch, &c.CreatedAt, &c.StartedAt, &c.FinishedAt, &c.Told}
}

func (c *completed) lease() job.Lease {
	return job.Lease{Tenant: c.TenantID, Job: c.ID, Epoch: c.Epoch, ID: c.OutcomeLeaseID}
}

// complete ends the jobs whose leases are still held, and gives those by lease.
func (s *Jobs) complete(ctx context.Context, by completion, endings []*Ending) (map[job.Lease]completed, error) {
	endings, again := eachJobOnce(endings)
	args := completeArgs(by, endings)
	statement, scan := by.sql, scanCompleted
	if s.logAttempts {
		statement, scan = by.logged, scanCompletedLogged
	}
	rows, err := store.Query(ctx, s.Store, scan, statement, args)
	if err != nil {
		return nil, fmt.Errorf("jobs: complete: %w", err)
	}
	s.completed(by, rows)
	done := make(map[job.Lease]completed, len(rows))
	for _, row := range rows {
		done[row.lease()] = row
	}
	if len(again) > 0 {
		more, err := s.complete(ctx, by, again)
		if err != nil {
			return nil, err
		}
		maps.Copy(done, more)
	}
	return done, nil
}

// completeArgs are those of a completion, of endings that are each of another job, in order.
func completeArgs(by completion, endings []*Ending) store.Args {
	leases := make([]job.Lease, len(endings))
	var results []*string // nil where no job has one
	// One value: PostgreSQL walks an array of values of any length from its start for each subscript.
	hashes := make([]byte, 0, 32*len(endings))
	for i, ending := range endings {
		leases[i] = ending.Lease
		if ending.Result != nil {
			if results == nil {
				results = make([]*string, len(endings))
			}
			result := string(ending.Result)
			results[i] = &result
		}
		hash := ending.hash()
		hashes = append(hashes, hash[:]...)
	}
	args := leaseArgs(leases)
	args["results"], args["hashes"], args["owners"] = results, hashes, tenantsOf(leases)
	if by.parents {
		args["uses"] = usesOf(endings)
	}
	return args
}

// completed is called after the commit of completes.
func (s *Jobs) completed(by completion, rows []completed) {
	if by.parents && len(rows) > 0 {
		s.edges.Appended()
		s.gates.Appended()
	}
	if len(rows) > 0 && rows[0].Told {
		s.events.Appended()
	}
}

// usesOf are what was reported of budgets, nil where nothing was.
func usesOf(endings []*Ending) []*string {
	uses := make([]*string, len(endings))
	for i, ending := range endings {
		if ending.Used != nil {
			text := string(store.JSON(ending.Used))
			uses[i] = &text
		}
	}
	return uses
}

// tenantsOf are the tenants of leases, each once.
func tenantsOf(leases []job.Lease) []tenant.ID {
	seen := map[tenant.ID]bool{}
	var tenants []tenant.ID
	for i := range leases {
		if owner := leases[i].Tenant; !seen[owner] {
			seen[owner] = true
			tenants = append(tenants, owner)
		}
	}
	return tenants
}

// eachJobOnce sorts endings by job, as inputSQL needs them. A call may name a job twice, with a lease
// that holds and one that does not: the second is for another statement.
func eachJobOnce(endings []*Ending) (once, again []*Ending) {
	sorted := slices.SortedStableFunc(slices.Values(endings), func(a, b *Ending) int { return bytes.Compare(a.Lease.Job[:], b.Lease.Job[:]) })
	for i, ending := range sorted {
		if i > 0 && ending.Lease.Job == sorted[i-1].Lease.Job {
			again = append(again, ending)
		} else {
			once = append(once, ending)
		}
	}
	return once, again
}

// completedOutcome is the outcome of a complete, first or repeated.
func completedOutcome(id uuid.UUID, attempt int32, epoch int64) *api.Outcome {
	return &api.Outcome{JobID: id.String(), State: api.StateCompleted, Attempt: int(attempt), Epoch: epoch}
}
