package jobs_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// a cap on a backlog larger than one backfill batch is not enforced.
func TestCapOverBacklog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Fill(12_000, "")
	limits := celltest.Under(f.ActiveCap(11_000))
	got := f.Admitted(f.Jobs(50, limits)...)
	t.Logf("active before 12000, cap 11000, admitted %d", got)
	if got != 0 {
		t.Errorf("admitted %d over the cap", got)
	}
}

// rows that are locked when the cap comes are not counted; running cap exceeded.
func TestLockedAtBackfill(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Jobs(10)...)
	f.Claim(3, time.Minute)
	hb := celltest.Connect(t, f.URL) // a heartbeat's UPDATE that has not committed yet
	tx, _ := hb.Begin(t.Context())
	if _, err := tx.Exec(t.Context(), `UPDATE jobs SET lease_expires_at = lease_expires_at + interval '1 s' WHERE state = 'running'`); err != nil {
		t.Fatal(err)
	}
	taken, err := f.Store.Claims.Claim(t.Context(), claim.Request{
		Lanes:   []claim.Lane{{ID: f.Lane.ID, Tenant: f.Tenant, VisibilityTimeout: time.Minute, Caps: []caps.Cap{f.RunningCap(3)}}},
		Workers: []claim.Worker{{ID: "w", Max: 5}}, Owner: f.Tenant, LeaseID: uuid.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = tx.Commit(t.Context())
	n := f.CountOf(`SELECT count(*) FROM jobs WHERE state = 'running'`)
	if n > 3 {
		t.Errorf("claimed %d; %d running under a cap of 3", len(taken.Jobs), n)
	}
}

// settled although a job is left (its row was locked).
func TestSettledTooEarly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job(celltest.Under(f.ActiveCap(3)))) // the count has a row
	f.Submit(f.Job())                               // by a core with older limits
	f.Exec(`UPDATE usage_counts SET opened_at = opened_at - interval '2 minutes'`)
	hb := celltest.Connect(t, f.URL)
	tx, _ := hb.Begin(t.Context())
	if _, err := tx.Exec(t.Context(), `SELECT FROM jobs WHERE counted = 0 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Store.Counts.Backfill(t.Context(), f.ActiveCap(0).CountKey); err != nil {
		t.Fatal(err)
	}
	_ = tx.Rollback(t.Context())
	stored, _ := f.Store.Counts.StoredCounts(t.Context(), caps.CountKey{}, 10)
	t.Logf("stored: %+v", stored)
	f.NoDrift()
}

// a job that is refused for its own fault (deadline past) takes a neighbour's slot.
func TestBadJobTakesNeighboursSlot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(1))
	past := time.Now().Add(-time.Hour)
	late := f.Job(limits, func(j *submit.NewJob) { j.Deadline = &past })
	good := f.Job(limits)
	answers := f.TrySubmit(
		submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{late}},
		submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{good}},
	)
	t.Logf("late: %v; good: %v; live %d", answers[0].Problem, answers[1].Problem, f.Live())
	if answers[1].Problem != nil {
		t.Errorf("the good job was refused: %v, with %d jobs live", answers[1].Problem.Code, f.Live())
	}
}

// a keyed, non-atomic batch of which all items are refused leaves no key, yet its twin in the flush is refused for a mismatch.
func TestAllRefusedBatchTwin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(0))
	keyed := func(body byte, jobs ...submit.NewJob) submit.Submission {
		return submit.Submission{
			Tenant: f.Tenant, Jobs: jobs, Batch: true,
			Idempotency: &submit.Idempotency{Operation: "o", Key: "k", Fingerprint: [32]byte{body}},
		}
	}
	answers := f.TrySubmit(keyed(1, f.Jobs(2, limits)...), keyed(2, f.Job()), keyed(1, f.Jobs(2, limits)...))
	t.Logf("same body: replayed=%v status=%d", answers[2].Replayed, celltest.ResponseTo(&answers[2]).Status)
	if answers[1].Problem != nil {
		t.Errorf("answered %v; keys stored: %d", answers[1].Problem.Code, f.Count("idempotency_keys"))
	}
	if answers[2].Replayed {
		t.Errorf("a replay of what is not remembered")
	}
}

// redrive inserts in the order of ids, submit in that of dedupe_keys.
func TestDeadlockRedriveSubmit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n = 400
	stranger := f.NewTenant()
	strangersLane := f.NewLane(stranger, "default")
	for round := range 5 {
		found := make([]submit.NewJob, n)
		for i := range found { // ids go up, keys go down
			key := fmt.Sprintf("r%d-%05d", round, n-i)
			found[i] = f.Job(func(j *submit.NewJob) { j.DedupeKey = &key })
		}
		ids := f.Submit(found...)
		var endings []jobs.Ending
		for _, c := range f.Claim(n, time.Minute) {
			endings = append(endings, jobs.Ending{Lease: c.Lease(), Kind: api.KindFail, Permanent: true})
		}
		f.Store.Jobs.End(t.Context(), endings)
		var group sync.WaitGroup
		group.Go(func() {
			for _, r := range f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", ids, nil)[:1] {
				if r.Err != nil {
					t.Logf("redrive: %v", r.Err)
				}
			}
		})
		group.Go(func() {
			var subs []submit.Submission
			for i := range found {
				key := *found[i].DedupeKey
				subs = append(subs, submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job(func(j *submit.NewJob) { j.DedupeKey = &key })}})
			}
			subs = append(subs, submit.Submission{Tenant: stranger, Jobs: []submit.NewJob{f.Job(func(j *submit.NewJob) { j.Lane = strangersLane.ID })}})
			if _, err := f.Store.Submits.Submit(t.Context(), subs); err != nil {
				t.Errorf("round %d: the plain flush, a stranger's submit in it: %v", round, err)
			}
		})
		group.Wait()
		f.Exec(`DELETE FROM jobs; DELETE FROM dead_letters`)
	}
}

// two rounds of a guarded flush against a plain one.
func TestDeadlockTwoRounds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(1))
	_ = limits
	zero := celltest.Under(f.QueueCap("nothing", 0))
	key := func(k string) func(*submit.NewJob) { return func(j *submit.NewJob) { j.DedupeKey = &k } }
	// the plain flush of the same tenant (another core): holds "a", then wants "b"
	other := celltest.Connect(t, f.URL)
	tx, _ := other.Begin(t.Context())
	ins := `INSERT INTO jobs (id, tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, ready_at, dedupe_key, size)
SELECT gen_random_uuid(), $1, $2, 'default', 'test', 'queued', 5, 'null', '{}', '{}', 3, 1, 1, 0, now(), now(), now(), $3, 8 ON CONFLICT DO NOTHING`
	if _, err := tx.Exec(t.Context(), ins, f.Tenant, f.Lane.ID, "a"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		keyed := func(body byte, jobs ...submit.NewJob) submit.Submission {
			return submit.Submission{
				Tenant: f.Tenant, Jobs: jobs, Batch: true, Atomic: true, Render: celltest.Render,
				Idempotency: &submit.Idempotency{Operation: "o", Key: "k", Fingerprint: [32]byte{body}},
			}
		}
		_, err := f.Store.Submits.Submit(t.Context(), []submit.Submission{
			keyed(1, f.Job(zero)),     // refused
			keyed(2, f.Job(key("a"))), // in the second round
			{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job(key("b"))}}, // in the first
		})
		done <- err
	}()
	celltest.Eventually(t, "the guarded flush to wait", func() bool {
		return f.CountOf(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	_, errPlain := tx.Exec(t.Context(), ins, f.Tenant, f.Lane.ID, "b")
	_ = tx.Rollback(t.Context())
	err := <-done
	t.Logf("guarded: %v; plain: %v", err, errPlain)
	// PostgreSQL ends the one that has waited for a second when they meet: a store that
	// is ended tries again, the statement here cannot.
	var ended *pgconn.PgError
	if victim := errors.As(errPlain, &ended) && ended.Code == "40P01"; err != nil || errPlain != nil && !victim {
		t.Error("deadlock")
	}
}
