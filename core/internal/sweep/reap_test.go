package sweep_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/shared/api"
)

func (f *fixture) reaper() *sweep.Duty { return reaper(f.duties()) }

func reaper(d sweep.Duties) *sweep.Duty {
	reap, _ := d.Reap()
	return reap
}

// hurried gives every running job so short a visibility timeout that a third of
// it is nothing: holders have no grace period.
func (f *fixture) hurried() {
	f.Helper()
	f.exec(`UPDATE jobs SET visibility_timeout_ms = 0 WHERE state = 'running'`)
}

func TestReapTakesBackAndWakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	again := f.submit(1, 0)[0]
	last := f.submit(1, 0, func(n *submit.NewJob) { n.MaxAttempts = 1 })[0]
	late := f.submit(1, 0, func(n *submit.NewJob) { n.TimeoutMS = new(int64(1)) })[0]
	f.claimAndExpire(3)
	f.exec(`UPDATE jobs SET started_at = started_at - interval '1 minute'`)
	f.hurried()
	if _, err := f.reaper().RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if job := f.get(again); job.State != api.StateQueued || job.Attempt != 1 || job.LastError.Type != "lease_expired" {
		t.Errorf("with attempts left: %+v", job.JobSummary)
	}
	if job := f.get(last); job.State != api.StateDeadLetter || *job.DeadReason != api.ReasonWorkerLost {
		t.Errorf("on the last attempt: %+v", job.JobSummary)
	}
	if job := f.get(late); job.State != api.StateScheduled || job.LastError.Type != "timeout" {
		t.Errorf("past its timeout_ms: %+v", job.JobSummary)
	}
	if len(f.woken) != 1 || f.woken[0] != f.lane.ID || len(f.d.Scheduled) != 1 {
		t.Errorf("woken %v, kicked %d", f.woken, len(f.d.Scheduled))
	}
}

// The end of a job whose lease was lost frees its place under a cap, whatever became of it.
func TestReapReleasesCapacity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.store.Tenants.Create(t.Context(), f.tenant, api.TenantRequest{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Tenants.Patch(t.Context(), f.tenant, api.TenantPatch{Overrides: &api.Overrides{Limits: api.Limits{MaxRunning: new(int64(9))}}}); err != nil {
		t.Fatal(err)
	}
	released := 0
	f.d = f.newCore(func(lists []jobs.Waiting) {
		for _, list := range lists {
			if list.CapacityReleased {
				released++
			}
		}
	})
	if err := f.d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{api.StateDeadLetter, api.StateCancelled, api.StateQueued} {
		id := f.submit(1, 0, func(n *submit.NewJob) {
			if want == api.StateDeadLetter {
				n.MaxAttempts = 1
			}
		})[0]
		f.claimAndExpire(1)
		f.hurried()
		if want == api.StateCancelled {
			f.exec(`UPDATE jobs SET cancel_requested = true WHERE id = $1`, id)
		}
		released = 0
		if _, err := f.reaper().RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if job := f.get(id); job.State != want || released != 1 {
			t.Errorf("%s: capacity released %d times, want %s and once", job.State, released, want)
		}
	}
}

func TestReapAMassExpiry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const jobs = 1200
	f.submit(jobs, 0)
	f.claimAndExpire(jobs)
	f.hurried()
	if _, err := f.reaper().RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.count(`SELECT count(*) FROM jobs WHERE state = 'queued' AND attempt = 1`); n != jobs || f.wakeUps() != jobs {
		t.Errorf("%d queued, %d wake-ups, want %d", n, f.wakeUps(), jobs)
	}
	if len(f.batches) < 3 {
		t.Errorf("%d batches, want at least 3", len(f.batches))
	}
	if n := f.count(`SELECT count(*) FROM attempts`); n != jobs {
		t.Errorf("%d attempts are on record", n)
	}
}

func TestTwoReapersNeverSettleTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const jobs = 1500
	f.submit(jobs, 0)
	f.claimAndExpire(jobs)
	f.hurried()
	other := reaper(sweep.New(celltest.OpenURL(t, f.url), f.d.Engine, counted(), quiet()))
	var group sync.WaitGroup
	for _, r := range []*sweep.Duty{f.reaper(), other} {
		group.Go(func() {
			// a batch may be cut short by the other's locks: the next period goes on
			for range 5 {
				if _, err := r.RunOnce(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := f.count(`SELECT count(*) FROM jobs WHERE state = 'queued' AND attempt = 1 AND epoch = 1`); n != jobs {
		t.Errorf("%d queued, want %d", n, jobs)
	}
	if n := f.count(`SELECT count(*) FROM attempts`); n != jobs || f.wakeUps() != jobs {
		t.Errorf("%d attempts on record, %d wake-ups, want %d", n, f.wakeUps(), jobs)
	}
}

// After a start, and after PostgreSQL was away, holders speak first.
func TestReapGivesHoldersTheirTimeFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit(1, 0)[0]
	f.claimAndExpire(1)
	wait := func(ms int) {
		t.Helper()
		f.exec(`UPDATE jobs SET visibility_timeout_ms = $1`, 3*ms)
	}
	r := f.reaper()
	reap := func(want string) {
		t.Helper()
		if _, err := r.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if job := f.get(id); job.State != want {
			t.Fatalf("job is %s, want %s", job.State, want)
		}
	}
	wait(60_000)
	reap(api.StateRunning)
	wait(1)
	celltest.Eventually(t, "the job to be taken back", func() bool {
		if _, err := r.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		return f.get(id).State == api.StateQueued
	})

	f.claimAndExpire(1)
	f.exec(`ALTER TABLE jobs RENAME TO away`)
	for range 2 {
		if _, err := r.RunOnce(t.Context()); err == nil {
			t.Fatal("RunOnce without its table succeeds")
		}
		<-time.After(1500 * time.Millisecond)
	}
	f.exec(`ALTER TABLE away RENAME TO jobs`)
	wait(1000) // less than has passed since it went well, more than since the outage is known
	reap(api.StateRunning)
	celltest.Eventually(t, "the job to be taken back", func() bool {
		if _, err := r.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		return f.get(id).State == api.StateQueued
	})
}

func TestReapRunsUntilItIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := counted()
	reap, contact := f.duties(m).Reap()
	f.exec(`ALTER TABLE jobs RENAME TO away`)
	stopReap, stopContact := f.run(reap.Run), f.run(contact.Run)
	celltest.Eventually(t, "an error to be counted", func() bool {
		return testutil.ToFloat64(m.SweepErrors.WithLabelValues("reap")) > 0
	})
	f.exec(`ALTER TABLE away RENAME TO jobs`)
	f.submit(1, 0)
	f.claimAndExpire(1)
	f.hurried()
	f.awaitWakeUp(2*sweep.ReapPeriod + slack)
	stopReap()
	stopContact()
}

// While no lease is held, nothing is locked and no transaction is opened, and PostgreSQL is not asked for the time besides.
func TestAnIdleReaperAsksLittle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	recorded := &celltest.Statements{}
	traced, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.url, MaxConns: 4, PoolWait: 5 * time.Second, Tracer: recorded}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.Close)
	asked := func(what string) bool {
		for sql := range recorded.Seen() {
			if strings.Contains(sql, what) {
				return true
			}
		}
		return false
	}
	d := sweep.New(traced, f.d.Engine, counted(), quiet())
	reap, contact := d.Reap()
	for range 3 {
		if _, err := reap.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := contact.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Deadlines().RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !asked("EXISTS (SELECT FROM jobs WHERE state = 'running'") || asked("FOR UPDATE") {
		t.Errorf("an idle reaper asks %v", recorded.Seen())
	}
	if _, known := recorded.Seen()["SELECT statement_timestamp()"]; known {
		t.Error("an idle contact check asks for the time")
	}
	f.submit(1, 0)
	f.claimAndExpire(1)
	if _, err := reap.RunOnce(t.Context()); err != nil || !asked("FOR UPDATE") {
		t.Errorf("an expired lease is not looked at: %v", err)
	}
}

func TestReapStopsAmidAMassExpiry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(1500, 0)
	f.claimAndExpire(1500)
	f.hurried()
	ctx, cancel := context.WithCancel(t.Context())
	r := reaper(sweep.New(f.store, f.newCore(func(lanes []jobs.Waiting) { f.wake(lanes); cancel() }).Engine, counted(), quiet()))
	if _, err := r.RunOnce(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("RunOnce = %v", err)
	}
	if n := f.count(`SELECT count(*) FROM jobs WHERE state = 'running'`); n != 1000 {
		t.Errorf("%d are still leased, want 1000", n)
	}
}

// PostgreSQL, or this core, stalled for longer than a third of a lease: holders that
// could not renew have a grace period.
func TestReapGivesHoldersTimeAfterAStandstill(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit(1, 0)[0]
	f.claimAndExpire(1)
	f.exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() + interval '1 hour'`) // while leases are held, it asks often
	r := f.reaper()
	if _, err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-time.After(3 * time.Second) // it runs each second, and listens more often
	f.exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 millisecond', visibility_timeout_ms = 6000`)
	if _, err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if job := f.get(id); job.State != api.StateRunning {
		t.Fatalf("job is %s, want running", job.State)
	}
	celltest.Eventually(t, "the job to be taken back", func() bool {
		if _, err := r.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		return f.get(id).State == api.StateQueued
	})
}

// An error is no outage of unknown length: errors now and then do not hold leases.
func TestReapGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit(1, 0)[0]
	r := f.reaper()
	reap := func(fails bool) {
		t.Helper()
		if _, err := r.RunOnce(t.Context()); (err != nil) != fails {
			t.Fatal(err)
		}
	}
	reap(false)
	for range 8 { // two thirds of the lease: after the start holders speak first
		<-time.After(time.Second)
		reap(false)
	}
	for range 2 {
		reap(false)
		f.exec(`ALTER TABLE jobs RENAME TO away`)
		reap(true)
		f.exec(`ALTER TABLE away RENAME TO jobs`)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.RunOnce(gone); err == nil {
		t.Fatal("RunOnce without a context succeeds")
	}
	f.claimAndExpire(1)
	f.exec(`UPDATE jobs SET visibility_timeout_ms = 12000`)
	reap(false)
	if job := f.get(id); job.State != api.StateQueued {
		t.Errorf("job is %s, want queued", job.State)
	}
}
