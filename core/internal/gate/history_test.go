package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// history is what two cores do at the same time with jobs of few keys.
type history struct {
	*fixture

	cores [2]*enginetest.Core
	stop  context.Context
	keys  int

	mu sync.Mutex
	// started are the jobs that were claimed, by key, in order.
	started map[string][]uuid.UUID
	claimed int
}

func newHistory(t *testing.T, settings *api.KeySettingsRequest) *history {
	t.Helper()
	f := newFixture(t, settings)
	stop, cancel := context.WithTimeout(t.Context(), time.Duration(celltest.Rounds(3, 12))*time.Second)
	t.Cleanup(cancel)
	other := f.NewCore(celltest.OpenURL(t, f.URL))
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &history{fixture: f, cores: [2]*enginetest.Core{f.D, other}, stop: stop, keys: 6, started: map[string][]uuid.UUID{}}
}

// submit takes all doors: one job, several, delayed ones, atomic batches, with a dedupe_key, after another job.
func (h *history) submit(core *enginetest.Core) error {
	key := fmt.Sprint("k", rand.IntN(h.keys))
	requests := of(key, 1+rand.IntN(3))
	call := h.Call(requests...)
	switch rand.IntN(6) {
	case 0:
		call.Atomic = len(requests) > 1
	case 1:
		requests[0].DelayMS = new(int64(1 + rand.IntN(50)))
	case 2:
		dedupe := fmt.Sprint("d", rand.IntN(4))
		requests[0].DedupeKey = &dedupe
	case 3:
		now := api.At(time.Now())
		requests[0].RunAt = &now
	}
	call.Batch = len(requests) > 1 || call.Atomic
	answer := core.Submit(h.Context(), []submitsCall{call})[0]
	return answer.Err
}

// work claims jobs, and ends them in each way that there is.
func (h *history) work(core *enginetest.Core) error {
	found, err := core.Claim(h.Context(), claims.Call{Owner: h.Tenant, WorkerID: "w", Queues: []string{api.DefaultQueue}, Max: 1 + rand.IntN(4)})
	if err != nil {
		return err
	}
	for i := range found {
		if err := h.note(&found[i]); err != nil {
			return err
		}
	}
	endings := enginetest.Endings(found)
	for i := range endings {
		e := &endings[i]
		switch rand.IntN(10) {
		case 0:
			e.Kind, e.Error, e.RetryAfter = api.KindFail, &api.JobError{Type: "E"}, new(10*time.Millisecond)
		case 1:
			e.Kind, e.Error, e.Permanent = api.KindFail, &api.JobError{Type: "E"}, true
		case 2:
			e.Kind, e.Delay = api.KindSnooze, 10*time.Millisecond
		case 3:
			e.Kind = api.KindRelease
		case 4: // its worker is lost
			if err := h.expire(e.Lease.Job); err != nil {
				return err
			}
		}
	}
	for _, ended := range h.Store.Jobs.End(h.Context(), endings) {
		if ended.Err != nil && !isLost(ended.Err) {
			return ended.Err
		}
	}
	return nil
}

func isLost(err error) bool { return err.Error() == jobs.ErrLeaseLost.Error() }

func (h *history) expire(id uuid.UUID) error {
	conn, err := h.Store.Acquire(h.Context())
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = conn.Exec(h.Context(), `UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1 AND state = 'running'`, id)
	if err != nil {
		return err
	}
	_, err = h.Store.Jobs.Reap(h.Context(), time.Now().Add(-time.Hour), 100, celltest.Half)
	return err
}

func (h *history) note(found *claim.Job) error {
	job, err := h.Store.JobReads.Get(h.Context(), h.Tenant, "", found.ID)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claimed++
	h.started[*job.Key] = append(h.started[*job.Key], found.ID)
	return nil
}

// killSessions ends sessions of the cores with PostgreSQL.
func (h *history) killSessions(by *pgx.Conn) error {
	_, err := by.Exec(h.Context(), `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> $1 AND random() < 0.2`, h.Direct.PgConn().PID())
	return err
}

// killed says that a killed session may be the reason.
func killed(err error) bool {
	err = errors.Join(err, store.Classify(err)) // of statements of the test itself
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrOverloaded) || strings.Contains(err.Error(), "57P01")
}

// reapLost ends leases that nobody will end: those of claims whose answer was lost, and of outcomes.
func (h *history) reapLost(*enginetest.Core) error {
	conn, err := h.Store.Acquire(h.Context())
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err = conn.Exec(h.Context(), `UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE state = 'running' AND started_at < now() - interval '2 seconds'`); err != nil {
		return err
	}
	_, err = h.Store.Jobs.Reap(h.Context(), time.Now().Add(-time.Hour), 100, celltest.Half)
	return err
}

// sweep is what the duties do.
func (h *history) sweep(*enginetest.Core) error {
	if _, err := h.Store.Jobs.Promote(h.Context(), jobs.AllTime, 100); err != nil {
		return err
	}
	passed, _, err := h.Store.Gates.Pass(h.Context(), h.Tenant)
	if err != nil {
		return err
	}
	for _, one := range passed {
		for _, c := range h.cores {
			c.WakeHere([]jobs.Waiting{{Ready: jobs.Ready{Lane: one.Lane, Priority: one.Priority, At: one.At, ID: one.ID}, Jobs: 1}})
		}
	}
	return nil
}

// cancel cancels a job that waits.
func (h *history) cancel(core *enginetest.Core) error {
	page, err := h.Store.JobReads.List(h.Context(), h.Tenant, api.JobFilter{States: []string{api.StateQueued, api.StateScheduled}}, 20, "")
	if err != nil || len(page.Items) == 0 {
		return err
	}
	id, _ := uuid.Parse(page.Items[rand.IntN(len(page.Items))].ID)
	_, _, err = core.Cancel(h.Context(), h.Tenant, "", id)
	if err != nil && err.Error() == jobs.ErrTerminal.Error() {
		return nil
	}
	return err
}

// run does all of it until the time is over, and then works off what is left.
func (h *history) run(check func()) {
	h.Helper()
	var all sync.WaitGroup
	failed := make(chan error, 100)
	again := func(every time.Duration, what func(*enginetest.Core) error, core *enginetest.Core, until func() bool) {
		all.Go(func() {
			pace := time.NewTicker(every)
			defer pace.Stop()
			for ; !until(); <-pace.C {
				if err := what(core); err != nil && !killed(err) {
					failed <- err
					return
				}
			}
		})
	}
	over := func() bool { return h.stop.Err() != nil }
	idle := make(chan struct{})
	done := func() bool {
		select {
		case <-idle:
			return true
		default:
			return false
		}
	}
	for _, core := range h.cores {
		again(3*time.Millisecond, h.submit, core, over)
		again(time.Millisecond, h.work, core, done)
		again(time.Millisecond, h.work, core, done)
		again(time.Millisecond, h.sweep, core, done)
	}
	again(10*time.Millisecond, h.cancel, h.D, over)
	killer := celltest.Connect(h.T, h.URL)
	again(300*time.Millisecond, func(*enginetest.Core) error { return h.killSessions(killer) }, h.D, over)
	again(200*time.Millisecond, h.reapLost, h.D, done)
	deadline := time.Now().Add(90 * time.Second)
	checks := time.NewTicker(5 * time.Millisecond)
	defer checks.Stop()
	for ; ; <-checks.C {
		if check(); over() && h.Count(`SELECT count(*) FROM jobs`) == 0 {
			break
		}
		if time.Now().After(deadline) || len(failed) > 0 || h.Failed() {
			break
		}
	}
	close(idle)
	all.Wait()
	select {
	case err := <-failed:
		h.Fatal(err)
	default:
	}
	if n := h.Count(`SELECT count(*) FROM jobs`); n > 0 && !h.Failed() {
		h.Errorf("%d jobs wait for nothing", n)
	}
	if n := h.Count(`SELECT count(*) FROM key_checks`); n > 0 {
		h.sweepAll()
	}
	if found, err := h.Store.Gates.Verify(h.Context()); err != nil || len(found) > 0 {
		h.Errorf("verify: %q, %v", found, err)
	}
	h.Logf("%d executions", h.claimed)
	if h.claimed < 100 {
		h.Errorf("%d executions are too few", h.claimed)
	}
}

func (h *history) sweepAll() {
	h.pass()
	if n := h.Count(`SELECT count(*) FROM key_checks`); n > 0 {
		h.Errorf("%d checks are left", n)
	}
}

// A key never has more jobs past its gate than its cap, and none waits for nothing.
func TestCapByKey(t *testing.T) {
	t.Parallel()
	const most = 3
	h := newHistory(t, &api.KeySettingsRequest{MaxRunning: new(int64(most))})
	top := 0
	h.run(func() {
		n := h.Count(`SELECT COALESCE(max(n), 0) FROM (SELECT count(*) AS n FROM jobs WHERE state = 'running' OR state = 'queued' AND ready_at IS NOT NULL GROUP BY key) AS keys`)
		if top = max(top, n); n > most {
			t.Errorf("%d jobs of a key are past its gate, %d may be", n, most)
		}
	})
	if top < most {
		t.Errorf("never more than %d jobs of a key were past its gate", top)
	}
}

// The jobs of a key run one after the other, in the order in which they were accepted, whatever happens to them.
func TestOrderByKey(t *testing.T) {
	t.Parallel()
	h := newHistory(t, &api.KeySettingsRequest{Order: new(api.KeyOrderFIFO)})
	h.Exec(`CREATE UNIQUE INDEX one_at_a_time ON jobs (key) WHERE state = 'running'`)
	h.Exec(`CREATE TABLE accepted AS SELECT id, created_at FROM jobs`)
	h.Exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO accepted VALUES (NEW.id, NEW.created_at); RETURN NULL; END $$`)
	h.Exec(`CREATE TRIGGER note AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION note()`)
	h.run(func() {})
	at := map[uuid.UUID]int{}
	rows, err := h.Direct.Query(t.Context(), `SELECT id FROM accepted ORDER BY created_at, id`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		at[id] = len(at)
	}
	inversions := 0
	for _, started := range h.started {
		for i := 1; i < len(started); i++ {
			if at[started[i]] < at[started[i-1]] {
				inversions++
			}
		}
	}
	if inversions > 0 {
		t.Errorf("%d of %d executions began before one of their key that was accepted earlier", inversions, h.claimed)
	}
}

// A dead letter holds its key, where the queue says so, until it was redriven and completed, or discarded.
func TestDeadLetterHoldsItsKey(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"redrive", "discard", "skip"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			settings := &api.KeySettingsRequest{Order: new(api.KeyOrderFIFO), OnDead: new(api.KeyHold)}
			if way == "skip" {
				settings.OnDead = nil
			}
			f := newFixture(t, settings)
			ids := f.batch(f.D, of("k", 2)...)
			other := f.batch(f.D, of("other", 1)...)
			first := f.take(10)
			if len(first) != 2 || first[0].ID != ids[0] && first[1].ID != ids[0] {
				t.Fatalf("%d jobs, want the first of each key", len(first))
			}
			f.end(first, func(e *jobs.Ending) {
				if e.Lease.Job == ids[0] {
					e.Kind, e.Error, e.Permanent = api.KindFail, &api.JobError{Type: "E"}, true
				}
			})
			_ = other
			later := f.batch(f.D, of("k", 1)...)
			f.pass()
			found := f.take(10)
			switch way {
			case "skip":
				if len(found) != 1 || found[0].ID != ids[1] {
					t.Fatalf("%d jobs, want the second", len(found))
				}
				return
			default:
				if len(found) != 0 {
					t.Fatalf("%d jobs started while a dead letter holds the key", len(found))
				}
			}
			if way == "redrive" {
				if done := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", ids[:1], nil); done[0].Err != nil {
					t.Fatal(done[0].Err)
				}
				f.pass()
				if found = f.take(10); len(found) != 1 || found[0].ID != ids[0] {
					t.Fatalf("%d jobs, want the redriven one", len(found))
				}
				f.end(found)
			} else if _, err := f.D.Discard(t.Context(), f.Tenant, "", ids[:1]); err != nil {
				t.Fatal(err)
			}
			for _, want := range []uuid.UUID{ids[1], later[0]} {
				f.pass()
				if found = f.take(10); len(found) != 1 || found[0].ID != want {
					t.Fatalf("%d jobs, want the next one", len(found))
				}
				f.end(found)
			}
		})
	}
}

// A change of a queue's limit applies to the jobs that wait.
func TestChangesOfALimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &api.KeySettingsRequest{MaxRunning: new(int64(1))})
	f.batch(f.D, of("k", 5)...)
	if found := f.take(10); len(found) != 1 {
		t.Fatalf("%d jobs started under a cap of 1", len(found))
	}
	f.Put(api.DefaultQueue, api.QueueRequest{Keys: &api.KeySettingsRequest{MaxRunning: new(int64(3))}})
	f.pass()
	if found := f.take(10); len(found) != 2 {
		t.Fatalf("%d more jobs started under a cap of 3", len(found))
	}
	f.Put(api.DefaultQueue, api.QueueRequest{})
	f.pass()
	if found := f.take(10); len(found) != 2 {
		t.Fatalf("%d more jobs started without a cap", len(found))
	}
}

// A job that is to be tried again later gives its place to the next one of its key, where the key has no order.
func TestARetryGivesItsPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &api.KeySettingsRequest{MaxRunning: new(int64(1))})
	ids := f.batch(f.D, of("k", 2)...)
	for _, kind := range []string{api.KindFail, api.KindSnooze} {
		f.end(f.take(1), func(e *jobs.Ending) { e.Kind, e.Error, e.Delay = kind, &api.JobError{Type: "E"}, time.Hour })
	}
	if n := f.Count(`SELECT count(*) FROM jobs WHERE state = 'scheduled'`); n != len(ids) {
		t.Errorf("%d jobs were tried, want both", n)
	}
}

// core verify finds a key whose jobs wait for nothing, and none that waits for another job, a dead letter or a check.
func TestVerifyFindsWhatWaitsForNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &api.KeySettingsRequest{Order: new(api.KeyOrderFIFO), OnDead: new(api.KeyHold)})
	lines := func(want int) {
		t.Helper()
		f.Exec(`UPDATE jobs SET waiting_since = now() - interval '1 hour' WHERE state = 'queued' AND ready_at IS NULL`)
		if found, err := f.Store.Gates.Verify(t.Context()); err != nil || len(found) != want {
			t.Errorf("%q, %v, want %d lines", found, err, want)
		}
	}
	f.batch(f.D, of("k", 3)...)
	lines(0)
	first := f.take(1)
	for i, ended := range f.Store.Jobs.End(t.Context(), enginetest.Endings(first)) {
		if ended.Err != nil {
			t.Fatal(i, ended.Err)
		}
	}
	lines(0) // there is a check
	f.Exec(`DELETE FROM key_checks`)
	lines(1)
	if _, err := f.Store.Gates.Sweep(t.Context(), gate.Key{}, 100); err != nil {
		t.Fatal(err)
	}
	f.pass()
	f.end(f.take(1), func(e *jobs.Ending) { e.Kind, e.Permanent, e.Error = api.KindFail, true, &api.JobError{Type: "E"} })
	lines(0) // a dead letter holds the key
	f.Exec(`DELETE FROM dead_letters`)
	lines(1)
}

// A rate by key lets so many jobs of each key pass at once, and then one for each interval; other keys do not wait.
func TestRateByKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &api.KeySettingsRequest{RatePerSecond: new(0.01), Burst: new(int64(2))})
	f.batch(f.D, of("k", 250)...) // more than pass in one transaction
	f.batch(f.D, of("other", 1)...)
	f.pass()
	if found := f.take(10); len(found) != 3 {
		t.Fatalf("%d jobs started, want two and one", len(found))
	}
	f.batch(f.D, of("k", 1)...)
	f.pass()
	if next, waits, err := f.Store.Gates.NextDue(t.Context()); err != nil || !waits || next < 90*time.Second || next > 100*time.Second {
		t.Errorf("the next one is due in %v, %v, %v", next, waits, err)
	}
	if n := f.Count(`SELECT count(*) FROM key_checks`); n != 1 {
		t.Errorf("%d checks, want one for the key that waits", n)
	}
	f.Exec(`UPDATE key_checks SET due_at = now(); UPDATE key_rates SET used_to = used_to - interval '100 s'`)
	f.pass()
	if found := f.take(10); len(found) != 1 {
		t.Fatalf("%d jobs started after an interval, want one", len(found))
	}
	f.Exec(`UPDATE key_rates SET used_to = now() - interval '1 s'`)
	if err := f.Store.Gates.ForgetRates(t.Context(), 10); err != nil || f.Count(`SELECT count(*) FROM key_rates`) != 0 {
		t.Errorf("rates are kept: %v", err)
	}
}
