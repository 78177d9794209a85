package jobs_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// modelRow is a row of any of the three tables.
type modelRow struct {
	Place           string
	ID              uuid.UUID
	TenantID        tenant.ID
	State           string
	Attempt         int
	MaxAttempts     int
	Epoch           int
	Redrives        int
	CancelRequested bool
	Worker          string
	LeaseID         uuid.UUID
	OutcomeLeaseID  uuid.UUID
	Reason          string
	ErrorType       string
	HasDeadline     bool
	RunAt           time.Time
	Whole           string
	Now             time.Time
}

const modelSharedColumns = `id, tenant_id, attempt, max_attempts, epoch, redrives, cancel_requested,
  COALESCE(worker_id, '') AS worker, COALESCE(outcome_lease_id, '00000000-0000-0000-0000-000000000000') AS outcome_lease_id,
  COALESCE(last_error->>'type', '') AS error_type, deadline IS NOT NULL AS has_deadline, run_at, statement_timestamp() AS now`

// Whole tables: rows that were never submitted would be found too.
const modelRowsSQL = `
SELECT 'jobs' AS place, state, COALESCE(lease_id, '00000000-0000-0000-0000-000000000000') AS lease_id, '' AS reason, (to_jsonb(r) - 'counted')::text AS whole,
  ` + modelSharedColumns + ` FROM jobs r
UNION ALL
SELECT 'finished_jobs', state, '00000000-0000-0000-0000-000000000000', '', r::text, ` + modelSharedColumns + ` FROM finished_jobs r
UNION ALL
SELECT 'dead_letters', 'dead_letter', '00000000-0000-0000-0000-000000000000', reason, r::text, ` + modelSharedColumns + ` FROM dead_letters r`

const modelKeysSQL = `SELECT count(*)::integer FROM idempotency_keys`

const modelAttemptsSQL = `SELECT job_id, epoch, attempt, kind, COALESCE(worker_id, ''), tenant_id FROM attempts ORDER BY job_id, epoch`

// check compares every row with the model after each step. With the sum of the
// rows predicted, accepted = live + finished + dead + discarded.
func (w *world) check(t *rapid.T) {
	w.steps++
	found := w.readRows(t)
	wanted := 0
	for _, j := range w.jobs {
		if j.state != discarded {
			wanted++
		}
	}
	if len(found) != wanted { // with the look-up below: each job in exactly one table
		t.Fatalf("%d rows, want %d", len(found), wanted)
	}
	var changed []uuid.UUID
	seen := map[uuid.UUID]bool{}
	for _, row := range found {
		j := w.jobs[row.ID]
		if j == nil || seen[row.ID] {
			t.Fatalf("a row that should not be: %+v", row)
		}
		seen[row.ID] = true
		if j.changed {
			changed = append(changed, j.id)
		}
		checkRow(t, j, row)
	}
	w.checkGets(changed)
	if every := 5; w.steps%every == 0 {
		w.checkCounts(t)
	}
	if every := 16; w.steps%every == 0 {
		w.checkGets(w.order)
	}
}

// readRows reads all there is in one round trip, checks what is not a job, and gives
// the rows of jobs.
func (w *world) readRows(t *rapid.T) []*modelRow {
	batch := &pgx.Batch{}
	for _, sql := range []string{modelRowsSQL, modelAttemptsSQL, modelKeysSQL} {
		batch.Queue(sql)
	}
	results := w.direct.SendBatch(w.ctx, batch)
	defer func() { _ = results.Close() }()
	rows, _ := results.Query()
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[modelRow])
	if err != nil {
		t.Fatal(err)
	}
	rows, _ = results.Query()
	w.checkAttempts(t, rows)
	rows, _ = results.Query()
	keys, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil || keys != len(w.keys) {
		t.Fatalf("%d keys, want %d (%v)", keys, len(w.keys), err)
	}
	return found
}

func checkRow(t *rapid.T, j *modelJob, row *modelRow) {
	want := modelRow{
		Place: "jobs", ID: j.id, TenantID: j.tenant, State: j.state, Attempt: j.attempt, MaxAttempts: j.maxAttempts, Epoch: j.epoch,
		Redrives: j.redrives, CancelRequested: j.cancelRequested, Worker: j.worker, Reason: j.reason, ErrorType: j.errorType,
		HasDeadline: j.hasDeadline,
		// not predicted here
		RunAt: row.RunAt, Whole: row.Whole, Now: row.Now,
	}
	switch j.state {
	case "completed", "cancelled":
		want.Place = "finished_jobs"
	case "dead_letter":
		want.Place = "dead_letters"
	}
	if j.lease != nil {
		want.LeaseID = j.lease.ID
	}
	if j.saved != nil {
		want.OutcomeLeaseID = j.saved.ending.Lease.ID
	}
	if *row != want {
		t.Fatalf("job %s is\n%+v, want\n%+v", j.id, *row, want)
	}
	if !j.changed && row.Whole != j.row {
		t.Fatalf("job %s, %s, changed by what should not change it:\n%s\n%s", j.id, j.state, j.row, row.Whole)
	}
	j.row, j.changed = row.Whole, false
	if row.Attempt > row.MaxAttempts || len(j.lost)+btoi(j.lease != nil) != row.Epoch {
		t.Fatalf("job %s: attempt %d of %d, %d leases in epoch %d", j.id, row.Attempt, row.MaxAttempts, len(j.lost), row.Epoch)
	}
	if ended := !j.live(); j.ends != j.redrives+btoi(ended) {
		t.Fatalf("job %s ended %d times in %d lives", j.id, j.ends, j.redrives+1)
	}
	checkWait(t, j, row)
}

// checkWait: the job waits as long as predicted, and as in its holder's answer.
func checkWait(t *rapid.T, j *modelJob, row *modelRow) {
	if !j.delayed() || j.due {
		return
	}
	if off := row.RunAt.Sub(row.Now) - j.wait; off.Abs() > modelTolerance {
		t.Fatalf("job %s, attempt %d, waits %v, want %v", j.id, j.attempt, row.RunAt.Sub(row.Now), j.wait)
	}
	if j.saved != nil && !j.saved.outcome.RunAt.Equal(row.RunAt) {
		t.Fatalf("job %s waits until %v, its holder's answer has %v", j.id, row.RunAt, j.saved.outcome.RunAt)
	}
}

func (w *world) checkAttempts(t *rapid.T, rows pgx.Rows) {
	got := map[uuid.UUID][]modelAttempt{}
	var id uuid.UUID
	var owner tenant.ID
	var a modelAttempt
	if _, err := pgx.ForEachRow(rows, []any{&id, &a.epoch, &a.attempt, &a.kind, &a.worker, &owner}, func() error {
		if j := w.jobs[id]; j == nil || j.tenant != owner {
			t.Fatalf("an attempt of job %s for tenant %s", id, owner)
		}
		got[id] = append(got[id], a)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := map[uuid.UUID][]modelAttempt{}
	for _, j := range w.jobs {
		if len(j.attempts) > 0 {
			want[j.id] = j.attempts
		}
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("attempts are\n%v, want\n%v", got, want)
	}
}

// checkGets compares what the owner sees.
func (w *world) checkGets(ids []uuid.UUID) {
	for i, id := range ids {
		j := w.jobs[id]
		got, err := w.stores[i%2].JobReads.Get(w.ctx, j.tenant, "", id)
		if j.state == discarded {
			if !errors.Is(err, store.ErrNotFound) {
				w.Fatalf("a discarded job: %+v %v", got, err)
			}
			continue
		}
		if err != nil {
			w.Fatal(err)
		}
		if difference := j.differs(&got); difference != "" {
			w.Fatalf("get of %s, %s: %s; %+v", id, j.state, difference, got.JobSummary)
		}
		if i > 0 {
			continue
		}
		if _, err := w.stores[1].JobReads.Get(w.ctx, w.other(j.tenant), "", id); !errors.Is(err, store.ErrNotFound) {
			w.Fatalf("another tenant's get: %v", err)
		}
	}
}

func (j *modelJob) differs(got *api.Job) string {
	for _, field := range []struct {
		name      string
		got, want any
	}{
		{"state", got.State, j.state},
		{"attempt", got.Attempt, j.attempt},
		{"epoch", got.Epoch, int64(j.epoch)},
		{"redrives", got.Redrives, j.redrives},
		{"cancel_requested", got.CancelRequested, j.cancelRequested},
		{"priority", got.Priority, j.priority},
		{"user", text(got.User), j.user},
		{"worker_id", text(got.WorkerID), j.worker},
		{"dead_reason", text(got.DeadReason), j.reason},
		{"dedupe_key", text(got.DedupeKey), j.dedupe},
		{"payload", string(got.Payload), j.payload},
		{"result", string(got.Result), j.result},
		{"lease", got.LeaseExpiresAt != nil, j.lease != nil},
		{"deadline", got.Deadline != nil, j.hasDeadline},
		{"waiting_for", len(got.WaitingFor), len(j.awaited) * btoi(j.state == "waiting")},
		{"finished_at", got.FinishedAt != nil, !j.live()},
		{"started_at", got.StartedAt != nil, j.epoch > 0},
		{"error", got.LastError != nil && got.LastError.Type == j.errorType, j.errorType != ""},
	} {
		if field.got != field.want {
			return fmt.Sprintf("%s is %v, want %v", field.name, field.got, field.want)
		}
	}
	return ""
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
