package sweep_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/shared/api"
)

// traced are duties whose statements are recorded.
func (f *fixture) traced() (sweep.Duties, *celltest.Statements) {
	f.Helper()
	recorded := &celltest.Statements{}
	traced, err := cell.Open(f.Context(), cell.Options{Options: store.Options{URL: f.url, MaxConns: 4, PoolWait: 5 * time.Second, Tracer: recorded}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(traced.Close)
	return sweep.New(traced, f.d.Engine, counted(), quiet()), recorded
}

// asleep runs a duty, and waits until it has sent a statement with this text: it sleeps then, or is about to.
func (f *fixture) asleep(duty *sweep.Duty, recorded *celltest.Statements, text string) (stop func()) {
	f.Helper()
	stop = f.run(duty.Run)
	celltest.Eventually(f, "the first run", func() bool {
		for sql := range recorded.Seen() {
			if strings.Contains(sql, text) {
				return true
			}
		}
		return false
	})
	return stop
}

// stored stores a job by the fixture's core, which kicks its duties.
func (f *fixture) stored(request api.SubmitRequest) uuid.UUID {
	f.Helper()
	id := uuid.Must(uuid.NewV7())
	answer := f.d.Submit(f.Context(), []submits.Call{{Tenant: f.tenant, IDs: []uuid.UUID{id}, Jobs: []api.SubmitRequest{request}}})[0]
	if answer.Err != nil || answer.Problem != nil {
		f.Fatal(answer.Err, answer.Problem)
	}
	return id
}

// In a minute without work the duties send few statements: they sleep until something is due, or is stored.
func TestIdleDutiesAskLittle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, recorded := f.traced()
	reap, contact := d.Reap()
	all := map[string]*sweep.Duty{
		"reap": reap, "contact": contact, "promote": d.Promote(), "deadlines": d.Deadlines(), "redrives": d.Redrives(), "schedules": d.Schedules(),
		"usage": d.Usage(), "workers": d.Workers(), "gates": d.Gates(), "gate sweep": d.GateSweep(), "follow-ups": d.FollowUps(),
		"deliveries": d.Deliveries(), "tenants": d.Tenants(),
	}
	if _, err := reap.RunOnce(t.Context()); err != nil { // contact follows
		t.Fatal(err)
	}
	sent := 0
	for name, duty := range all {
		before := recorded.Sent()
		for slept := time.Duration(0); slept < time.Minute; {
			sleep, err := duty.RunOnce(t.Context())
			if err != nil {
				t.Fatal(name, err)
			}
			slept += sleep
		}
		if n := recorded.Sent() - before; n > 30 {
			t.Errorf("%s sends %d statements in a minute", name, n)
		}
		sent += recorded.Sent() - before
	}
	if sent > 150 {
		t.Errorf("%d statements in a minute", sent)
	}
}

// What this core stores ends the sleep of the duty that waits for it; TestWhatGetsATimeKicksItsDuty has every way in.
func TestDutiesAreKickedByWhatThisCoreStores(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, p := f.duties(), f.d.Publisher
	reap, _ := d.Reap()
	for name, of := range map[string]struct {
		duty  *sweep.Duty
		kicks publish.Kick
	}{
		"deadlines": {d.Deadlines(), p.Deadlines}, "promote": {d.Promote(), p.Scheduled}, "reap": {reap, p.Leased},
		"redrives": {d.Redrives(), p.Redrives}, "schedules": {d.Schedules(), p.Schedules}, "tenants": {d.Tenants(), p.Deleted},
	} {
		if !of.duty.KickedBy(of.kicks) {
			t.Errorf("%s sleeps on", name)
		}
	}
}

// A deadline of this core is kept.
func TestADeadlineOfThisCoreIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, recorded := f.traced()
	f.asleep(d.Deadlines(), recorded, "SELECT deadline - ")
	id := f.stored(api.SubmitRequest{Type: "test", ExpiresAfterMS: new(int64(1200))})
	celltest.Eventually(t, "the deadline", func() bool { return f.get(id).State == api.StateDeadLetter })
}

// A deadline of another core, that died, is found by the net; the duty sleeps until a deadline that it has seen.
func TestADeadlineOfAnotherCoreIsFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, recorded := f.traced()
	f.asleep(d.Deadlines(), recorded, "SELECT deadline - ")
	soon := f.now().Add(300 * time.Millisecond)
	id := f.submit(1, 0, func(j *submit.NewJob) { j.Deadline = &soon })[0]
	celltest.Eventually(t, "the deadline", func() bool { return f.get(id).State == api.StateDeadLetter })

	duty := d.Deadlines()
	sleep := func() time.Duration {
		t.Helper()
		next, err := duty.RunOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	far := f.now().Add(time.Hour)
	f.submit(1, 0, func(j *submit.NewJob) { j.Deadline = &far })
	if got := sleep(); got != net {
		t.Errorf("with a deadline in an hour: %v", got)
	}
	near := f.now().Add(3 * time.Second)
	f.submit(1, 0, func(j *submit.NewJob) { j.Deadline = &near })
	if got := sleep(); got < time.Second || got > 3100*time.Millisecond {
		t.Errorf("with a deadline in 3 s: %v", got)
	}
}

// Deadlines of jobs of a tenant that moves are another cell's: they keep nothing awake.
func TestADeadlineOfATenantThatMovesKeepsNothingAwake(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(1, 0)
	f.exec(`UPDATE jobs SET deadline = statement_timestamp() - interval '1 second'`)
	f.exec(`INSERT INTO tenant_fences (tenant_id, state) VALUES ($1, 'draining')`, f.tenant)
	if got, err := f.duties().Deadlines().RunOnce(t.Context()); err != nil || got != net {
		t.Errorf("it sleeps %v, %v", got, err)
	}
}

// A lease of this core is known to the reaper within a second, although it sleeps for longer while it knows of none.
func TestAClaimWakesTheReaper(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, recorded := f.traced()
	reap, contact := d.Reap()
	if sleep, err := reap.RunOnce(t.Context()); err != nil || sleep != net {
		t.Errorf("without a lease it sleeps %v, %v", sleep, err)
	}
	f.run(contact.Run)
	stop := f.asleep(reap, recorded, "EXISTS (SELECT FROM jobs WHERE state = 'running'")
	f.stored(api.SubmitRequest{Type: "test"})
	claimed, err := f.d.Claim(t.Context(), claims.Call{Owner: f.tenant, WorkerID: "w1", Queues: []string{"default"}, Max: 1})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	celltest.Eventually(t, "the contact check, which runs while leases are held", func() bool {
		_, asked := recorded.Seen()["SELECT statement_timestamp()"]
		return asked
	})
	stop()
	if sleep, err := reap.RunOnce(t.Context()); err != nil || sleep > 1100*time.Millisecond {
		t.Errorf("with a lease it sleeps %v, %v", sleep, err)
	}
}

// A lease that another core gave while this one knew of none, and that ran out unobserved, has its grace: heartbeats may have
// been refused meanwhile.
func TestALeaseOfAnotherCoreThatEndedUnobservedHasItsGrace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit(1, 0)[0]
	r := f.reaper()
	if _, err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the grace of the start ends
		<-time.After(2 * time.Second)
	}
	f.claimAndExpire(1)
	f.exec(`UPDATE jobs SET visibility_timeout_ms = 4000`)
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

// What this core schedules starts on time; so does what another one scheduled, once it was seen.
func TestADelayOfThisCoreIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, recorded := f.traced()
	f.asleep(d.Promote(), recorded, "SELECT run_at - ")
	f.stored(api.SubmitRequest{Type: "test", DelayMS: new(int64(300))})
	f.awaitWakeUp(net + slack)
}

// A redrive of another core, that died, is found by the net. One of this core begins with its kick, see the operations' tests.
func TestARedriveOfAnotherCoreIsFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.dead(1)
	d, recorded := f.traced()
	duty := d.Redrives()
	if sleep, err := duty.RunOnce(t.Context()); err != nil || sleep != 2*net {
		t.Errorf("without a redrive it sleeps %v, %v", sleep, err)
	}
	f.asleep(duty, recorded, "SELECT next_at FROM redrives")
	id := f.redrive(nil)
	celltest.Eventually(t, "the redrive to end", func() bool { return f.redriveNow(id).State == api.RedriveDone })
	id = f.redrive(nil)
	duty.Kick()
	celltest.Eventually(t, "the kicked redrive to end", func() bool { return f.redriveNow(id).State == api.RedriveDone })
}
