package jobs

import (
	"bytes"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/budget"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/ledger"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/webhook/events"
	"github.com/forgequeue/forgequeue/shared/api"
)

// lockedColumns are what a verdict on a live job needs.
const lockedColumns = `id, state, tenant_id, lane_id, priority, queue, type, user_id, counted, attempt, max_attempts, epoch, retry_base_ms, retry_cap_ms,
  retry_jitter, retry_curve, deferred_since, timeout_ms, started_at, lease_id, lease_expires_at, worker_id, cancel_requested, correlation_id, traceparent,
  has_dependents, redrives, run_at, key, gate, costs, statement_timestamp() AS now`

// lockedRow is a live job whose row this transaction has locked. The fields of a lease are nil
// while the job waits.
type lockedRow struct {
	ID          uuid.UUID
	State       job.State
	TenantID    tenant.ID
	LaneID      lanes.ID
	Priority    int16
	Queue       string
	Type        string
	UserID      *string
	Counted     caps.Counter
	Attempt     int32
	MaxAttempts int32
	Epoch       int64
	RetryBaseMs int64
	RetryCapMs  int64
	RetryJitter float64
	RetryCurve  string
	// DeferredSince is when the job was first returned because its destination could not take it;
	// nil for never.
	DeferredSince   *time.Time
	TimeoutMs       *int64
	StartedAt       *time.Time
	LeaseID         *uuid.UUID
	LeaseExpiresAt  *time.Time
	WorkerID        *string
	CancelRequested bool
	CorrelationID   *string
	Traceparent     *string
	HasDependents   bool
	Redrives        int32
	RunAt           time.Time
	Key             *string
	Gate            gate.Limit
	Costs           api.Amounts
	// Now is PostgreSQL's clock when the row was locked: values computed from it are the same in
	// the answer and in the table.
	Now time.Time
	// told: its end has appended events, see AppendSQL of package events.
	told bool
}

func (r *lockedRow) retry() job.Retry {
	return job.Retry{
		Base:   time.Duration(r.RetryBaseMs) * time.Millisecond,
		Cap:    time.Duration(r.RetryCapMs) * time.Millisecond,
		Jitter: r.RetryJitter,
		Curve:  job.Curve(r.RetryCurve),
	}
}

func (r *lockedRow) facts() job.Facts {
	return job.Facts{Attempt: int(r.Attempt), MaxAttempts: int(r.MaxAttempts), CancelRequested: r.CancelRequested}
}

func (r *lockedRow) lease() job.Lease {
	lease := job.Lease{Tenant: r.TenantID, Job: r.ID, Epoch: r.Epoch}
	if r.LeaseID != nil {
		lease.ID = *r.LeaseID
	}
	return lease
}

const lockHeldSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE ` + heldSQL + `
ORDER BY id
FOR UPDATE`

// queueLockHeld locks the rows whose lease is held as part of a batch: the map has them once that
// has run.
func queueLockHeld(batch *pgx.Batch, leases []job.Lease) map[job.Lease]*lockedRow {
	held := make(map[job.Lease]*lockedRow, len(leases))
	batch.Queue(lockHeldSQL, leaseArgs(leases)).Query(func(rows pgx.Rows) error {
		locked, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[lockedRow])
		for _, row := range locked {
			held[row.lease()] = row
		}
		return err
	})
	return held
}

// transition is a verdict on a live job, ready to be stored.
type transition struct {
	row     *lockedRow
	verdict job.Verdict
	// kind is the outcome that the holder's ending counts as.
	kind string
	// err is the attempt's error, nil for none.
	err *api.JobError
	// delay is how long a scheduled job waits.
	delay time.Duration
	// deferred says that the job goes back because its destination cannot take it.
	deferred bool
	// attemptKind is the kind of the row in attempts, "" for none: an attempt that was given back
	// has none.
	attemptKind string

	// The holder's answer, saved for repeats; nil where no holder ended it.
	leaseID *uuid.UUID
	hash    []byte
	answer  *string

	// used is what the holder reported of budgets; free says that nothing else was used, throttle which budgets refused it.
	used     api.Amounts
	free     bool
	throttle map[string]api.Throttle

	// wait is what the job waits for; nil where it does not. checkpoint is what its next attempt gets, nil for what there is.
	wait       *Wait
	checkpoint []byte
	// submitted are the jobs that the transaction stores, see Chain.
	submitted []string
}

func (s *transition) attempt() int32 {
	if s.verdict.AttemptBack {
		return s.row.Attempt - 1
	}
	return s.row.Attempt
}

// waitsOn says that the job continues to wait as if it had not been claimed: it was given back, or its destination could not
// take it. Its age counts from when it first could run. A holder that snoozes it asks for a later time instead.
func (s *transition) waitsOn() bool {
	return s.verdict.AttemptBack && (s.verdict.State == job.Queued || s.deferred)
}

// runAt is when the job may be claimed again; nil where it has ended.
func (s *transition) runAt() *time.Time {
	switch s.verdict.State {
	case job.Queued:
		return &s.row.Now
	case job.Scheduled, job.Waiting:
		at := s.row.Now.Add(s.delay)
		return &at
	default:
		return nil
	}
}

func (s *transition) outcome() *api.Outcome {
	outcome := &api.Outcome{
		JobID: s.row.ID.String(), State: string(s.verdict.State), Attempt: int(s.attempt()),
		Epoch: s.row.Epoch, RunAt: api.AtOrNil(s.runAt()), Submitted: s.submitted,
	}
	if s.verdict.Reason != "" {
		reason := string(s.verdict.Reason)
		outcome.DeadReason = &reason
	}
	return outcome
}

// saveReplay saves the holder's answer, so that a repeat gets the same.
func (s *transition) saveReplay(ending *Ending) {
	hash, answer := ending.hash(), string(store.JSON(s.outcome()))
	s.leaseID, s.hash, s.answer = &ending.Lease.ID, hash[:], &answer
}

func (s *transition) result() Ended {
	return Ended{Outcome: s.outcome(), Kind: s.kind, Change: s.change(job.Event(s.kind))}
}

// inputSQL finds the place of a row's id in the call's arrays, where ids are sorted and unique: the
// other values of the row are there too. It is in the place of a join with the arrays, which is
// quadratic where statistics are of a nearly empty table: the planner then expects one row, and reads
// all of the input again for each (BenchmarkSteps, calls of 1,000: 628 instead of 46 µs a job).
const inputSQL = `(SELECT width_bucket(id, @ids::uuid[]) AS place OFFSET 0) AS input`

// requeueSQL makes jobs queued or scheduled again, or makes them wait.
const requeueSQL = `
UPDATE jobs
SET (state, attempt, run_at, ready_at, waiting_since, last_error, deferred_since, outcome_lease_id, outcome_hash, outcome_answer) = (
      SELECT (@states::text[])[place], (@attempts::integer[])[place], (@run_ats::timestamptz[])[place],
             -- one with a key comes to the gate of it
             CASE WHEN (@states::text[])[place] = 'queued' AND jobs.key IS NULL THEN statement_timestamp() END,
             -- it still waits for what it waited for before
             CASE WHEN (@unspent::boolean[])[place] THEN COALESCE(jobs.waiting_since, jobs.ready_at)
                  WHEN (@states::text[])[place] = 'queued' AND jobs.key IS NOT NULL THEN statement_timestamp() END,
             COALESCE((@errors::text[])[place]::json, jobs.last_error),
             -- the first deferral stays
             COALESCE(jobs.deferred_since, (@deferrals::timestamptz[])[place]),
             (@leases::uuid[])[place], (@hashes::bytea[])[place], (@answers::text[])[place]::json
      FROM ` + inputSQL + `),
    lease_id = NULL, lease_expires_at = NULL, visibility_timeout_ms = NULL, worker_id = NULL, worker_owner = NULL,
    -- still active, no longer running
    counted = counted & ` + caps.ActiveCountersSQL + `
WHERE id = ANY(@ids::uuid[])`

// removeSQL moves jobs out of the live table, with the values of their end; deadLetterSQL and
// cancelledSQL follow it, and append the events of their webhooks.
const removeSQL = `
WITH gone AS (
  DELETE FROM jobs WHERE id = ANY(@ids::uuid[])
  RETURNING ` + read.StableColumns + `, ` + read.AnswerColumns + `
)`

// endColumnsSQL are the values of JobColumns after StableColumns. A job that waited keeps its last
// holder's answer: there was no claim since (D5).
const endColumnsSQL = `(@attempts::integer[])[place], COALESCE((@errors::text[])[place]::json, last_error),
       COALESCE((@leases::uuid[])[place], outcome_lease_id), COALESCE((@hashes::bytea[])[place], outcome_hash),
       COALESCE((@answers::text[])[place]::json, outcome_answer)`

const deadLetterSQL = `, told AS (
  INSERT INTO dead_letters (` + read.JobColumns + `, reason, fingerprint, died_at)
  SELECT ` + read.StableColumns + `, ` + endColumnsSQL + `, (@reasons::text[])[place], (@fingerprints::text[])[place], statement_timestamp()
  FROM gone CROSS JOIN LATERAL ` + inputSQL + `
  RETURNING 'job.dead_letter'::text AS kind, ` + read.EventColumns + `, 'dead_letter'::text AS state, NULL::json AS result, reason, died_at AS finished_at
)` + eventsSQL

const cancelledSQL = `, told AS (
  INSERT INTO finished_jobs (` + read.JobColumns + `, state, result, finished_at)
  SELECT ` + read.StableColumns + `, ` + endColumnsSQL + `, 'cancelled', NULL, statement_timestamp()
  FROM gone CROSS JOIN LATERAL ` + inputSQL + `
  RETURNING 'job.cancelled'::text AS kind, ` + read.EventColumns + `, state, result, NULL::text AS reason, finished_at
)` + eventsSQL

// eventsSQL gives a row for each event.
const eventsSQL = `, events AS (` + events.AppendSQL + `
  RETURNING 1
)
SELECT 1 FROM events`

const recordAttemptsSQL = `
INSERT INTO attempts (job_id, epoch, tenant_id, attempt, kind, worker_id, started_at, ended_at,
                      error_type, error_message, error_stack, next_run_at)
SELECT a.job_id, a.epoch, a.tenant_id, a.attempt, a.kind, a.worker_id, a.started_at, statement_timestamp(),
       a.error_type, a.error_message, a.error_stack, a.next_run_at
FROM unnest(@ids::uuid[], @epochs::bigint[], @tenants::uuid[], @attempts::integer[], @kinds::text[], @workers::text[],
            @starts::timestamptz[], @types::text[], @messages::text[], @stacks::text[], @run_ats::timestamptz[])
     AS a(job_id, epoch, tenant_id, attempt, kind, worker_id, started_at, error_type, error_message, error_stack, next_run_at)`

// finish gives the statements that store verdicts on rows that the transaction has locked: at most
// one for each target state, and one for the attempts.
func finish(transitions []*transition) *pgx.Batch {
	var back, dead, cancelled, attempted []*transition
	// as inputSQL needs them; each job is there once
	slices.SortFunc(transitions, func(a, b *transition) int { return bytes.Compare(a.row.ID[:], b.row.ID[:]) })
	for _, s := range transitions {
		switch s.verdict.State {
		case job.DeadLetter:
			dead = append(dead, s)
		case job.Cancelled:
			cancelled = append(cancelled, s)
		default:
			back = append(back, s)
		}
		if s.attemptKind != "" {
			attempted = append(attempted, s)
		}
	}
	batch := &pgx.Batch{}
	released(transitions).Append(batch)
	failed(transitions).Append(batch)
	if len(back) > 0 {
		batch.Queue(requeueSQL, requeueArgs(back))
		queueWaits(batch, back)
	}
	if len(dead) > 0 {
		batch.Queue(removeSQL+deadLetterSQL, deadLetterArgs(dead)).Exec(told(dead))
	}
	if len(cancelled) > 0 {
		batch.Queue(removeSQL+cancelledSQL, endedArgs(cancelled)).Exec(told(cancelled))
	}
	if len(attempted) > 0 {
		batch.Queue(recordAttemptsSQL, attemptArgs(attempted))
	}
	dependency.Append(batch, followUps(transitions))
	gate.Append(batch, checks(transitions))
	budget.Settle(batch, settlements(transitions))
	budget.Close(batch, closings(transitions))
	return batch
}

// checks are the keys of jobs that come to their gates, or leave from behind them.
func checks(transitions []*transition) []gate.Key {
	var keys []gate.Key
	for _, s := range transitions {
		if s.toGate() || s.row.Gate != gate.None {
			keys = append(keys, gate.Key{Tenant: s.row.TenantID, Queue: s.row.Queue, Key: *s.row.Key})
		}
	}
	return keys
}

// settlements are those of the attempts that end. A job that leaves before its attempt leaves room for another one.
func settlements(transitions []*transition) []budget.Settlement {
	var all []budget.Settlement
	for _, s := range transitions {
		start := s.row.StartedAt
		if s.row.State != job.Running {
			start = nil
		}
		all = append(all, budget.Settlements(s.row.TenantID, s.row.UserID, s.row.Key, start, s.row.Costs, s.used, s.free, s.throttle)...)
	}
	return all
}

// closings are the budgets that refused an attempt.
func closings(transitions []*transition) []budget.Closing {
	var all []budget.Closing
	for _, s := range transitions {
		for name, throttle := range s.throttle {
			all = append(all, budget.Closing{Tenant: s.row.TenantID, Name: name, For: time.Duration(throttle.RetryAfterMS) * time.Millisecond})
		}
	}
	return all
}

// toGate says that the job is queued, and comes to the gate of its key.
func (s *transition) toGate() bool { return s.row.Key != nil && s.verdict.State == job.Queued }

// told notes on rows whether their end has appended events.
func told(transitions []*transition) func(pgconn.CommandTag) error {
	return func(events pgconn.CommandTag) error {
		for _, s := range transitions {
			s.row.told = events.RowsAffected() > 0
		}
		return nil
	}
}

// followUps are those of the jobs that end and have dependents.
func followUps(transitions []*transition) []dependency.FollowUp {
	var owed []dependency.FollowUp
	for _, s := range transitions {
		if s.row.HasDependents && s.verdict.State.Terminal() {
			owed = append(owed, dependency.FollowUp{Tenant: s.row.TenantID, Job: s.row.ID, State: s.verdict.State, Redrives: s.row.Redrives})
		}
	}
	return owed
}

// appended is called after the commit of transitions.
func (s *Jobs) appended(transitions []*transition) {
	for _, made := range transitions {
		switch {
		case made.verdict.State.Terminal():
			s.follow(made.row)
		case made.row.told: // it waits for signals
			s.events.Appended()
		}
	}
	if len(closings(transitions)) > 0 {
		s.events.Appended()
	}
	if len(checks(transitions)) > 0 || len(settlements(transitions)) > 0 {
		s.gates.Appended()
	}
}

// follow is called after the commit that has ended a job.
func (s *Jobs) follow(row *lockedRow) {
	if row.HasDependents {
		s.edges.Appended()
	}
	if row.told {
		s.events.Appended()
	}
	if row.Gate != gate.None {
		s.gates.Appended()
	}
}

// released are the counts that the jobs leave: a requeued job leaves the running counts, an ended
// one all.
func released(transitions []*transition) caps.Credits {
	left := caps.Credits{}
	for _, s := range transitions {
		leaving := caps.RunningCounters
		if s.verdict.State.Terminal() {
			leaving |= caps.ActiveCounters
		}
		left.Of(s.row.TenantID, s.row.UserID, s.row.Queue, s.row.Type, s.row.Counted, leaving)
	}
	return left
}

// failed is how long the attempts ran that failed.
func failed(transitions []*transition) ledger.Failed {
	ran := ledger.Failed{}
	for _, s := range transitions {
		if made := s.statistic(); made.FailedAttempt {
			ran.Add(s.row.TenantID, s.row.Queue, s.row.Type, s.row.UserID, made.Running)
		}
	}
	return ran
}

func (s *transition) errorJSON() *string {
	if s.err == nil {
		return nil
	}
	text := string(store.JSON(s.err))
	return &text
}

func requeueArgs(transitions []*transition) store.Args {
	args := sharedArgs(transitions)
	states, unspent := make([]string, len(transitions)), make([]bool, len(transitions))
	runAts, deferrals := make([]*time.Time, len(transitions)), make([]*time.Time, len(transitions))
	for i, s := range transitions {
		states[i], runAts[i], unspent[i] = string(s.verdict.State), s.runAt(), s.waitsOn()
		if s.deferred {
			deferrals[i] = &s.row.Now
		}
	}
	args["states"], args["run_ats"], args["deferrals"], args["unspent"] = states, runAts, deferrals, unspent
	return args
}

func deadLetterArgs(transitions []*transition) store.Args {
	args := endedArgs(transitions)
	reasons, fingerprints := make([]*string, len(transitions)), make([]*string, len(transitions))
	for i, s := range transitions {
		if s.verdict.Reason == "" {
			continue
		}
		reason := string(s.verdict.Reason)
		failure := api.JobError{}
		if s.err != nil {
			failure = *s.err
		}
		fingerprint := job.Fingerprint(s.row.Type, s.verdict.Reason, failure.Type, failure.Message)
		reasons[i], fingerprints[i] = &reason, &fingerprint
	}
	args["reasons"], args["fingerprints"] = reasons, fingerprints
	return args
}

// endedArgs are those of jobs that leave the live table.
func endedArgs(transitions []*transition) store.Args {
	args := sharedArgs(transitions)
	leases := make([]job.Lease, len(transitions))
	for i, s := range transitions {
		leases[i].Tenant = s.row.TenantID
	}
	args["owners"] = tenantsOf(leases)
	return args
}

// sharedArgs are the arrays that every statement of a transition takes.
func sharedArgs(transitions []*transition) store.Args {
	n := len(transitions)
	ids, attempts := make([]uuid.UUID, n), make([]int32, n)
	errors, answers := make([]*string, n), make([]*string, n)
	leases, hashes := make([]*uuid.UUID, n), make([][]byte, n)
	for i, s := range transitions {
		ids[i], attempts[i], errors[i] = s.row.ID, s.attempt(), s.errorJSON()
		leases[i], hashes[i], answers[i] = s.leaseID, s.hash, s.answer
	}
	return store.Args{
		"ids": ids, "attempts": attempts, "errors": errors, "leases": leases, "hashes": hashes, "answers": answers,
	}
}

func attemptArgs(transitions []*transition) store.Args {
	n := len(transitions)
	ids, tenants, epochs := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]int64, n)
	attempts, kinds, workers := make([]int32, n), make([]string, n), make([]*string, n)
	starts, runAts := make([]*time.Time, n), make([]*time.Time, n)
	types, messages, stacks := make([]*string, n), make([]*string, n), make([]*string, n)
	for i, s := range transitions {
		ids[i], tenants[i], epochs[i] = s.row.ID, s.row.TenantID, s.row.Epoch
		attempts[i], kinds[i], workers[i] = s.row.Attempt, s.attemptKind, s.row.WorkerID
		starts[i], runAts[i] = s.row.StartedAt, s.runAt()
		if s.err != nil {
			types[i], messages[i], stacks[i] = &s.err.Type, &s.err.Message, &s.err.Stack
		}
	}
	return store.Args{
		"ids": ids, "tenants": tenants, "epochs": epochs, "attempts": attempts, "kinds": kinds, "workers": workers,
		"starts": starts, "run_ats": runAts, "types": types, "messages": messages, "stacks": stacks,
	}
}
