package submits_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// wait has a claimed job wait for signals.
func (f *fixture) wait(running claim.Job, timeout time.Duration, asked jobs.Wait) jobs.Ended {
	f.Helper()
	ending := enginetest.Endings([]claim.Job{running})[0]
	ending.Kind, ending.Wait, ending.Delay = api.KindWait, &asked, timeout
	return f.Store.Jobs.End(f.Context(), []jobs.Ending{ending})[0]
}

func (f *fixture) signal(id uuid.UUID, name string) jobs.Signalled {
	f.Helper()
	made, err := f.Store.Jobs.Signal(f.Context(), f.Tenant, "", id, name, nil)
	if err != nil {
		f.Fatal(err)
	}
	return made
}

// A job waits for any or for all of some signals, for a time alone, or not at all where they are there; the attempt comes back.
func TestAJobWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, both := f.parent(), f.parent()
	for _, job := range []claim.Job{one, both} {
		if ended := f.wait(job, time.Hour, jobs.Wait{Names: []string{"a", "b"}, All: job.ID == both.ID}); ended.Err != nil || ended.Outcome.State != api.StateWaiting || ended.Outcome.Attempt != 0 {
			t.Fatalf("%+v", ended)
		}
		if got := f.Get(job.ID); got.State != api.StateWaiting || got.Attempt != 0 || got.LeaseExpiresAt != nil {
			t.Errorf("%+v", got)
		}
	}
	if made := f.signal(one.ID, "c"); !made.First || made.Woken != nil {
		t.Errorf("one that it does not wait for: %+v", made)
	}
	if made := f.signal(one.ID, "b"); !made.First || made.Woken == nil {
		t.Errorf("%+v", made)
	}
	if made := f.signal(one.ID, "b"); made.First || made.Woken != nil {
		t.Errorf("a repeat: %+v", made)
	}
	if made := f.signal(both.ID, "a"); made.Woken != nil {
		t.Errorf("the first of two: %+v", made)
	}
	if made := f.signal(both.ID, "b"); made.Woken == nil {
		t.Errorf("the second of two: %+v", made)
	}
	for _, id := range []uuid.UUID{one.ID, both.ID} {
		if got := f.Get(id); got.State != api.StateQueued {
			t.Errorf("%+v", got)
		}
	}
	// the next wait is for what there is already
	woken := f.Claim(f.ClaimCall(api.DefaultQueue))[0]
	if ended := f.wait(woken, time.Hour, jobs.Wait{Names: []string{"b"}}); ended.Err != nil || ended.Outcome.State != api.StateQueued {
		t.Errorf("%+v", ended)
	}
	sleeper := f.parent()
	if ended := f.wait(sleeper, time.Hour, jobs.Wait{All: true}); ended.Err != nil || ended.Outcome.State != api.StateWaiting {
		t.Fatalf("%+v", ended)
	}
	f.Exec(`UPDATE jobs SET run_at = now() - interval '1 s' WHERE id = $1`, sleeper.ID)
	if due, err := f.Store.Jobs.Promote(t.Context(), jobs.AllTime, 10); err != nil || len(due) != 1 || f.Get(sleeper.ID).State != api.StateQueued {
		t.Errorf("%v %v", due, err)
	}
}

// A signal goes to a live job of the tenant, and a job has at most a hundred of them.
func TestSignalsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	job := f.parent()
	for i := range api.MaxSignals {
		f.signal(job.ID, fmt.Sprint("s", i))
	}
	if made := f.signal(job.ID, "s7"); made.First {
		t.Errorf("a repeat: %+v", made)
	}
	if _, err := f.Store.Jobs.Signal(t.Context(), f.Tenant, "", job.ID, "more", nil); !errors.Is(err, jobs.ErrTooManySignals) {
		t.Errorf("one more: %v", err)
	}
	if _, err := f.Store.Jobs.Signal(t.Context(), f.Tenant, "bob", job.ID, "s1", nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of another user: %v", err)
	}
	ending := enginetest.Endings([]claim.Job{job})[0]
	ending.Kind = api.KindComplete
	if ended := f.Store.Jobs.End(t.Context(), []jobs.Ending{ending})[0]; ended.Err != nil {
		t.Fatal(ended.Err)
	}
	if _, err := f.Store.Jobs.Signal(t.Context(), f.Tenant, "", job.ID, "late", nil); !errors.Is(err, jobs.ErrTerminal) {
		t.Errorf("of a job that has ended: %v", err)
	}
}

// Signals come before, while and after a job decides to wait, through two cores whose sessions with PostgreSQL are killed: no job
// waits whose signal is there, and each is woken once.
func TestNoJobSleepsWithItsSignalThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := celltest.OpenURL(t, f.URL)
	cells := []*jobs.Jobs{f.Store.Jobs, other.Jobs}
	killer := celltest.Connect(t, f.URL)
	f.Exec(`CREATE TABLE woken (id uuid)`)
	f.Exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO woken VALUES (NEW.id); RETURN NULL; END $$`)
	f.Exec(`CREATE TRIGGER note AFTER UPDATE ON jobs FOR EACH ROW WHEN (OLD.state = 'waiting' AND NEW.state = 'queued') EXECUTE FUNCTION note()`)
	rounds, asleep, early := celltest.Rounds(100, 2000), 0, 0
	until := func(do func() error) {
		for {
			err := do()
			if err == nil {
				return
			}
			if err = errors.Join(err, store.Classify(err)); !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrOutcomeUnknown) && !errors.Is(err, store.ErrOverloaded) {
				t.Error(err)
				return
			}
		}
	}
	// sessions that are killed while they are idle fail the next call
	parent := func() (running claim.Job) {
		until(func() error {
			call := submits.Call{Tenant: f.Tenant, Jobs: []api.SubmitRequest{{Type: "parent"}}, Batch: true, Render: celltest.Render, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}}
			if err := f.D.Submit(t.Context(), []submits.Call{call})[0].Err; err != nil {
				return err
			}
			found, err := f.D.Claim(t.Context(), f.ClaimCall(api.DefaultQueue))
			if err != nil {
				return err
			}
			if len(found) == 0 { // a claim that was not answered has it
				return store.ErrUnavailable
			}
			running = found[0]
			return nil
		})
		return running
	}
	for round := range rounds {
		running := parent()
		var all sync.WaitGroup
		var ended jobs.Ended
		pause := func() { _ = wait.For(t.Context(), time.Duration(rand.IntN(1500))*time.Microsecond) }
		all.Go(func() {
			pause()
			ending := enginetest.Endings([]claim.Job{running})[0]
			ending.Kind, ending.Wait, ending.Delay = api.KindWait, &jobs.Wait{Names: []string{"a", "b"}, All: true}, time.Hour
			until(func() error { ended = cells[0].End(t.Context(), []jobs.Ending{ending})[0]; return ended.Err })
		})
		for i, name := range []string{"a", "b"} {
			all.Go(func() {
				pause()
				until(func() error {
					_, err := cells[i].Signal(t.Context(), f.Tenant, "", running.ID, name, nil)
					return err
				})
			})
		}
		if round%10 == 0 {
			_, _ = killer.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> $1`, f.Direct.PgConn().PID())
		}
		all.Wait()
		if ended.Outcome != nil && ended.Outcome.State == api.StateQueued {
			early++
		}
		var state string // by a session that is not killed
		if err := f.Direct.QueryRow(t.Context(), `SELECT state FROM jobs WHERE id = $1`, running.ID).Scan(&state); err != nil || state != api.StateQueued {
			asleep++
			t.Errorf("round %d: it is %s, with %d signals", round, state, f.Count(`SELECT count(*) FROM job_signals WHERE job_id = $1`, running.ID))
		}
		f.Exec(`DELETE FROM jobs`)
	}
	rows, err := f.Direct.Query(t.Context(), `SELECT id FROM woken`)
	if err != nil {
		t.Fatal(err)
	}
	woken, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(woken, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	if n := len(slices.Compact(slices.Clone(woken))); n != len(woken) || n+early != rounds {
		t.Errorf("%d wakes of %d jobs, and %d did not wait, in %d rounds", len(woken), n, early, rounds)
	}
	t.Logf("%d rounds: %d woken, %d had their signals before, %d asleep", rounds, len(woken), early, asleep)
}

// Signals and waits of jobs that have ended are forgotten; those of live jobs, and of dead letters, which can be redriven, stay.
func TestSignalsOfEndedJobsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	live, dead, done := f.parent(), f.parent(), f.parent()
	for _, one := range []claim.Job{live, dead, done} {
		f.signal(one.ID, "a")
	}
	ending := enginetest.Endings([]claim.Job{dead, done})
	ending[0].Kind, ending[0].Permanent, ending[0].Error = api.KindFail, true, &api.JobError{Type: "E"}
	ending[1].Kind = api.KindComplete
	for _, ended := range f.Store.Jobs.End(t.Context(), ending) {
		if ended.Err != nil {
			t.Fatal(ended.Err)
		}
	}
	place := uuid.Nil
	for round := 0; round == 0 || place != uuid.Nil; round++ {
		var err error
		if place, err = f.Store.Jobs.ForgetSignals(t.Context(), place, 2); err != nil || round > 5 {
			t.Fatal(err, round)
		}
	}
	for id, want := range map[uuid.UUID]int{live.ID: 1, dead.ID: 1, done.ID: 0} {
		if n := f.Count(`SELECT count(*) FROM job_signals WHERE job_id = $1`, id); n != want {
			t.Errorf("%d signals, want %d", n, want)
		}
	}
}

// An outcome's jobs and signals are one with it: a complete's and a wait's, a repeat changes nothing, and the refusal of one signal names
// it and stores nothing.
func TestAnOutcomeSignals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other, asleep := f.parent(), f.parent()
	if ended := f.wait(asleep, time.Hour, jobs.Wait{Names: []string{"go"}}); ended.Err != nil {
		t.Fatal(ended.Err)
	}
	send := func(ending jobs.Ending, signals []jobs.ChainSignal, children ...api.SubmitRequest) jobs.Ended {
		t.Helper()
		call := submits.Call{Tenant: f.Tenant, Jobs: children}
		if len(children) > 0 {
			ending.Submit = store.JSON(children)
		}
		ending.Signal = store.JSON(signals)
		for range children {
			call.IDs = append(call.IDs, uuid.Must(uuid.NewV7()))
		}
		return f.D.Chain(t.Context(), ending, call, signals, "")
	}
	first, second := f.parent(), f.parent()
	waiting, completing := enginetest.Endings([]claim.Job{first})[0], enginetest.Endings([]claim.Job{second})[0]
	waiting.Kind, waiting.Wait, waiting.Delay, waiting.Checkpoint = api.KindWait, &jobs.Wait{Names: []string{"answer"}}, time.Hour, []byte(`{"asked":true}`)
	completing.Kind = api.KindComplete
	signals := []jobs.ChainSignal{{Job: asleep.ID, Name: "go", Data: []byte(`{"n":1}`)}, {Job: other.ID, Name: "early"}}
	made := send(waiting, signals, child(), child())
	if made.Err != nil || made.Outcome.State != api.StateWaiting || len(made.Outcome.Submitted) != 2 || f.children() != 2 {
		t.Fatalf("%+v", made)
	}
	if got := f.Get(asleep.ID); got.State != api.StateQueued {
		t.Errorf("it was signalled, and is %s", got.State)
	}
	again := send(waiting, signals, child(), child())
	if again.Err != nil || !again.Replayed || !slices.Equal(again.Outcome.Submitted, made.Outcome.Submitted) || again.Outcome.State != api.StateWaiting || f.children() != 2 {
		t.Errorf("a repeat: %+v", again)
	}
	// one that has ended: nothing of it is stored
	ended := f.parent()
	ending := enginetest.Endings([]claim.Job{ended})[0]
	ending.Kind = api.KindComplete
	if done := f.Store.Jobs.End(t.Context(), []jobs.Ending{ending})[0]; done.Err != nil {
		t.Fatal(done.Err)
	}
	refused := send(completing, []jobs.ChainSignal{{Job: first.ID, Name: "answer"}, {Job: ended.ID, Name: "late"}}, child())
	if wrong, ok := errors.AsType[*jobs.SignalError](refused.Err); !ok || wrong.Index != 1 || !errors.Is(refused.Err, jobs.ErrTerminal) {
		t.Errorf("%+v", refused)
	}
	if f.children() != 2 || f.Get(first.ID).State != api.StateWaiting || f.Get(second.ID).State != api.StateRunning {
		t.Error("a refused outcome has done something")
	}
	if made := send(completing, []jobs.ChainSignal{{Job: first.ID, Name: "answer"}}); made.Err != nil || made.Outcome.State != api.StateCompleted || made.Outcome.Submitted != nil {
		t.Errorf("%+v", made)
	}
	got := f.Get(first.ID)
	if got.State != api.StateQueued || string(got.Checkpoint) != `{"asked":true}` {
		t.Errorf("%+v", got)
	}
}

// A job that signals itself with its wait does not sleep; one that signals itself with its complete is refused: it has ended.
func TestAJobSignalsItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for kind, refused := range map[string]bool{api.KindWait: false, api.KindComplete: true} {
		running := f.parent()
		ending := enginetest.Endings([]claim.Job{running})[0]
		ending.Kind = kind
		if kind == api.KindWait {
			ending.Wait, ending.Delay = &jobs.Wait{Names: []string{"go"}}, time.Hour
		}
		signals := []jobs.ChainSignal{{Job: running.ID, Name: "go"}}
		ending.Signal = store.JSON(signals)
		made := f.D.Chain(t.Context(), ending, submits.Call{Tenant: f.Tenant}, signals, "")
		want := api.StateQueued
		if refused {
			want = api.StateRunning
		}
		if got := f.Get(running.ID); errors.Is(made.Err, jobs.ErrTerminal) != refused || got.State != want {
			t.Errorf("%s: %v, it is %s", kind, made.Err, got.State)
		}
		f.Exec(`DELETE FROM jobs`)
	}
}

// Two jobs that signal each other with their outcomes, again and again: each outcome is stored, and none waits for ever.
func TestOutcomesThatSignalEachOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range celltest.Rounds(20, 200) {
		pair := []claim.Job{f.parent(), f.parent()}
		var all sync.WaitGroup
		for i := range pair {
			all.Go(func() {
				ending := enginetest.Endings([]claim.Job{pair[i]})[0]
				ending.Kind, ending.Wait, ending.Delay = api.KindWait, &jobs.Wait{Names: []string{"hello"}}, time.Hour
				signals := []jobs.ChainSignal{{Job: pair[1-i].ID, Name: "hello"}}
				ending.Signal = store.JSON(signals)
				if made := f.D.Chain(t.Context(), ending, submits.Call{Tenant: f.Tenant}, signals, ""); made.Err != nil {
					t.Error(made.Err)
				}
			})
		}
		all.Wait()
		for _, one := range pair {
			if got := f.Get(one.ID); got.State != api.StateQueued {
				t.Fatalf("it is %s", got.State)
			}
		}
		f.Exec(`DELETE FROM jobs`)
	}
}

// A job that waits is an event of the webhooks that want it; one that continues at once is none.
func TestAWaitIsAnEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`INSERT INTO webhooks (tenant_id, name, events, queue, created_at, updated_at) VALUES
	  ($1, 'all', '{job.waiting}', NULL, now(), now()), ($1, 'ends', '{job.completed}', NULL, now(), now()), ($1, 'mail', '{job.waiting}', 'mail', now(), now())`, f.Tenant)
	asked, early := f.parent(), f.parent()
	f.signal(early.ID, "go")
	for _, one := range []claim.Job{asked, early} {
		if ended := f.wait(one, time.Hour, jobs.Wait{Names: []string{"go", "stop"}}); ended.Err != nil {
			t.Fatal(ended.Err)
		}
	}
	rows, err := f.Direct.Query(t.Context(), `SELECT webhook, job FROM webhook_events WHERE kind = 'job.waiting'`)
	if err != nil {
		t.Fatal(err)
	}
	type event struct {
		Webhook string
		Job     []byte
	}
	told, err := pgx.CollectRows(rows, pgx.RowToStructByName[event])
	if err != nil || len(told) != 1 || told[0].Webhook != "all" {
		t.Fatalf("%+v %v", told, err)
	}
	row, err := read.FromJSON(told[0].Job)
	if err != nil {
		t.Fatal(err)
	}
	if shown := row.Summary(); shown.ID != asked.ID.String() || shown.State != api.StateWaiting || !slices.Equal(shown.WaitingFor, []string{"go", "stop"}) || shown.FinishedAt != nil {
		t.Errorf("%+v", shown)
	}
}

// core verify finds a job that waits for what is there, and one of which it is not known what it waits for.
func TestVerifyFindsJobsThatSleepForNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lines := func() []string {
		t.Helper()
		found, err := f.Store.Jobs.VerifyWaits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	var all []claim.Job
	for i := range 5 {
		one := f.parent()
		if ended := f.wait(one, time.Hour, jobs.Wait{Names: []string{"a", "b"}, All: i%2 == 0}); ended.Err != nil {
			t.Fatal(ended.Err)
		}
		f.signal(one.ID, "other")
		all = append(all, one)
	}
	if found := lines(); len(found) > 0 {
		t.Fatal(found)
	}
	f.Exec(`INSERT INTO job_signals (job_id, name, tenant_id, at) SELECT id, 'a', tenant_id, now() FROM jobs WHERE id = ANY($1)`, []uuid.UUID{all[0].ID, all[1].ID})
	f.Exec(`DELETE FROM job_waits WHERE job_id = $1`, all[2].ID)
	f.Exec(`UPDATE jobs SET run_at = now() - interval '1 hour' WHERE id = $1`, all[3].ID)
	found := lines()
	want := []string{all[1].ID.String() + " has the signals", all[2].ID.String() + " waits for nothing", all[3].ID.String() + " should have been woken"}
	if len(found) != len(want) {
		t.Fatal(found)
	}
	for i := range want {
		if !strings.Contains(found[i], want[i]) {
			t.Errorf("%q, want %q", found[i], want[i])
		}
	}
}
