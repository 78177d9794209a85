package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// lockLanes holds the lock under which a tenant's lanes are made.
func (f *fixture) lockLanes(id tenant.ID) (unlock func()) {
	f.Helper()
	conn := celltest.Connect(f, f.url)
	if _, err := conn.Exec(f.Context(), `SELECT pg_advisory_lock($1)`, lockKey("lane", id)); err != nil {
		f.Fatal(err)
	}
	return func() {
		f.Helper()
		if err := conn.Close(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

// A lane that cannot be made fails the call that needs it, and no other one of its tenant.
func TestAFailedLaneFailsItsCallAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(plain())
	unlock := f.lockLanes(f.tenant)
	answers := f.d.Submit(t.Context(), []dispatch.SubmitCall{f.call(tagged("unknown")), f.call(plain())})
	unlock()
	if answers[0].Err == nil {
		t.Error("a lane was made under another session's lock")
	}
	f.accepted(answers[1])
}

// A tenant that makes lanes, or whose queue has a cap, while its lock is held: who
// shares an envelope or a flush with it is answered at once.
func TestAHostileTenantHoldsUpItselfAlone(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		prepare func(*fixture)
		lock    func(*fixture, tenant.ID) func()
		job     api.SubmitRequest
	}{
		"unknown lanes": {func(*fixture) {}, (*fixture).lockLanes, tagged("unknown")},
		"max_active of a queue": {func(f *fixture) {
			if err := f.store.Queues.Put(f.Context(), f.tenant, "capped", api.QueueRequest{MaxActive: new(int64(100))}); err != nil {
				f.Fatal(err)
			}
			f.refresh()
			f.submit(api.SubmitRequest{Type: "test", Queue: "capped"})
		}, (*fixture).lockTenant, api.SubmitRequest{Type: "test", Queue: "capped"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			hostile, other := f.tenant, f.newTenant()
			kind.prepare(f)
			f.tenant = other
			f.submit(plain())
			unlock := kind.lock(f, hostile)
			of := func(owner tenant.ID, shared bool, job api.SubmitRequest) dispatch.SubmitCall {
				call := f.call(job)
				call.Tenant, call.Shared = owner, shared
				return call
			}
			answers := f.d.Submit(t.Context(), []dispatch.SubmitCall{of(hostile, true, kind.job), of(other, true, plain())})
			if !answers[0].Alone || answers[0].Err != nil || answers[1].Alone {
				t.Errorf("in one envelope: %+v", answers)
			}
			f.accepted(answers[1])
			held := make(chan dispatch.SubmitAnswer, 1)
			go func() {
				held <- f.d.Submit(context.WithoutCancel(t.Context()), []dispatch.SubmitCall{of(hostile, false, kind.job)})[0]
			}()
			f.blocked(1)
			for range 3 {
				f.accepted(f.d.Submit(t.Context(), []dispatch.SubmitCall{of(other, true, plain())})...)
			}
			f.accepted(f.d.Submit(t.Context(), []dispatch.SubmitCall{of(other, false, tagged("new"))})...)
			select {
			case answer := <-held:
				t.Errorf("the hostile tenant was answered while its lock was held: %+v", answer)
			default:
			}
			unlock()
			f.accepted(<-held)
		})
	}
}

// inserts counts the statements that make lanes.
type inserts struct{ n atomic.Int64 }

func (*inserts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (*inserts) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*inserts) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *inserts) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if strings.Contains(data.SQL, "INSERT INTO lanes") {
		s.n.Add(1)
	}
}

func (*inserts) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// A thousand unknown lanes cost one statement, and where they are above the bound a
// thousand more cost none.
func TestLanesAreMadeTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	counted := &inserts{}
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.url, MaxConns: 4, PoolWait: 5 * time.Second, Tracer: counted}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	f.d = f.newCore(store)
	jobs := make([]api.SubmitRequest, 1000)
	for i := range jobs {
		jobs[i] = tagged(fmt.Sprint("t", i))
	}
	f.submit(jobs...) // a call each
	if n := counted.n.Load(); n != 1 {
		t.Errorf("%d statements made lanes", n)
	}
	f.exec(`INSERT INTO lanes (tenant_id, queue, type, tags, created_at) SELECT $1, 'x' || n, 'test', '{}', statement_timestamp() FROM generate_series(1, $2) n`,
		f.tenant, lanes.Max-len(jobs))
	calls := make([]dispatch.SubmitCall, 100)
	for i := range calls {
		calls[i] = f.call(tagged(fmt.Sprint("more", i)))
	}
	// A reached bound is cached for 5 s: on a machine that takes longer for what is asked here, it is reached again.
	const cached = 5 * time.Second
	for took := cached; took >= cached; {
		begun := time.Now()
		if answer := f.d.Submit(t.Context(), []dispatch.SubmitCall{f.call(tagged("one"))})[0]; answer.Err != nil || answer.Problem == nil || answer.Problem.Code != problem.TooManyLanes {
			t.Fatalf("%v, %v", answer.Err, answer.Problem)
		}
		f.refresh()
		unlock := f.lockLanes(f.tenant)
		answers := f.d.Submit(t.Context(), calls) // and nothing waits for the lock
		f.submit(jobs[:10]...)
		unlock()
		took = time.Since(begun)
		for _, answer := range answers {
			if took < cached && (answer.Err != nil || answer.Problem == nil || answer.Problem.Code != problem.TooManyLanes) {
				t.Fatalf("%v, %v", answer.Err, answer.Problem)
			}
		}
	}
}

// What a core knows of lanes follows the table: a retired one is asked for again before
// a job is stored in it, and of one that is gone nothing is left.
func TestForgottenLanes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.submit(plain())[0]
	lane := f.count(`SELECT lane_id FROM jobs WHERE id = $1`, first)
	f.exec(`UPDATE lanes SET retired_at = statement_timestamp()`)
	f.refresh()
	f.submit(plain())
	if n := f.count(`SELECT count(*) FROM lanes WHERE id = $1 AND retired_at IS NULL`, lane); n != 1 {
		t.Error("a job was stored in a retired lane")
	}
	if jobs := f.claim(f.claimCall()); len(jobs) != 2 {
		t.Fatalf("claimed %d", len(jobs))
	}
	f.exec(`DELETE FROM jobs`)
	f.exec(`DELETE FROM lanes`)
	f.d.ReadAllLanes()
	f.refresh()
	if n := f.d.KnownLists(); n != 0 {
		t.Errorf("lists of %d lanes are remembered", n)
	}
	f.submit(plain())
	if n := f.count(`SELECT count(*) FROM lanes WHERE id > $1`, lane); n != 1 {
		t.Error("a job was stored in a lane that is gone")
	}
	if jobs := f.claim(f.claimCall()); len(jobs) != 1 {
		t.Fatalf("claimed %d", len(jobs))
	}
}

// Jobs of deleted lanes are moved: by the duty, and at once where they are redriven
// from the dead letters.
func TestJobsOfForgottenLanes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lost := f.submit(plain(), tagged("x"))
	f.refresh()
	f.exec(`DELETE FROM lanes`) // which is not known here
	if moved, err := f.d.MoveOrphans(t.Context(), time.Minute); moved != 2 || err != nil {
		t.Fatalf("moved %d (%v)", moved, err)
	}
	found := f.claim(f.claimCall())
	if len(found) != 1 || found[0].ID != lost[0] {
		t.Fatalf("claimed %+v", found)
	}
	ended := f.d.End(t.Context(), []jobs.Ending{{
		Lease: found[0].Lease(), Kind: api.KindFail, Permanent: true, Error: &api.JobError{Type: "e", Message: "m"},
	}})
	if ended[0].Err != nil {
		t.Fatal(ended[0].Err)
	}
	f.exec(`DELETE FROM lanes`)
	f.d.ReadAllLanes()
	f.refresh()
	for _, redriven := range f.d.Redrive(t.Context(), f.tenant, "", []uuid.UUID{lost[0]}) {
		if redriven.Err != nil {
			t.Fatal(redriven.Err)
		}
	}
	if jobs := f.claim(f.claimCall()); len(jobs) != 1 || jobs[0].ID != lost[0] {
		t.Errorf("claimed %+v after the redrive", jobs)
	}
}

// A user gets a running cap while a lane for one of his jobs is made: the job is in a
// lane that is there.
func TestLimitsChangeWhileALaneIsMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(plain()) // the tenant's limits are known
	unlock := f.lockLanes(f.tenant)
	job := api.SubmitRequest{Type: "test", Queue: "new", User: new("u")}
	held := make(chan dispatch.SubmitAnswer, 1)
	go func() {
		held <- f.d.Submit(context.WithoutCancel(t.Context()), []dispatch.SubmitCall{f.call(job)})[0]
	}()
	f.blocked(1)
	f.override(api.Overrides{Users: map[string]api.Limits{"u": {UserMaxRunning: new(int64(2))}}})
	f.refresh()
	unlock()
	f.accepted(<-held)
	if n := f.count(`SELECT count(*) FROM jobs WHERE lane_id NOT IN (SELECT id FROM lanes)`); n != 0 {
		t.Errorf("%d jobs are in no lane", n)
	}
}

// A job without a lane is found and gets one.
func TestJobsWithoutALaneAreFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(plain())
	f.exec(`UPDATE jobs SET lane_id = 0`)
	if moved, err := f.d.MoveOrphans(t.Context(), time.Minute); moved != 1 || err != nil {
		t.Fatalf("moved %d (%v)", moved, err)
	}
	if n := f.count(`SELECT count(*) FROM jobs WHERE lane_id IN (SELECT id FROM lanes)`); n != 1 {
		t.Error("the job is still in no lane")
	}
}

// When lanes are deleted their ready lists are dropped, in every refresh.
func TestAChangeOfAQueueForgetsLanes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(plain())
	f.exec(`DELETE FROM lanes`)
	f.d.ReadAllLanes()
	if _, err := f.d.PauseQueue(t.Context(), f.tenant, "another", true); err != nil {
		t.Fatal(err)
	}
	if n := f.d.KnownLists(); n != 0 {
		t.Errorf("lists of %d lanes are remembered", n)
	}
}

// A standby that lagged is promoted: the id of a lane that was lost is now another's. No job is stored
// there, and none claimed.
func TestLanesOfAnotherPrimary(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(plain())
	f.exec(`DELETE FROM jobs`)
	f.exec(`UPDATE lanes SET queue = 'of-another'`)
	f.d.NewPrimary()
	stored := f.submit(plain())[0]
	if n := f.count(`SELECT count(*) FROM jobs j JOIN lanes l ON l.id = j.lane_id WHERE l.queue = j.queue`); n != 1 {
		t.Error("the job is in a lane of another queue")
	}
	if jobs := f.claim(f.claimCall()); len(jobs) != 1 || jobs[0].ID != stored {
		t.Errorf("claimed %v", jobs)
	}
}
