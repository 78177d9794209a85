package move_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/move"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// killer ends a move at one of its statements, as a kill does: the session's transaction is rolled back.
type killer struct {
	kill context.CancelFunc
	left atomic.Int64
}

func (k *killer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if k.left.Add(-1) == 0 {
		k.kill()
	}
	return ctx
}

func (*killer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// killedAfter runs a move that is killed at its n-th statement.
func (f *fixture) killedAfter(n int, to string) error {
	ctx, cancel := context.WithCancel(f.bounded())
	defer cancel()
	k := &killer{kill: cancel}
	k.left.Store(int64(n))
	return f.move(ctx, to, k)
}

// upTo moves until the phase is reached, and is killed there.
func (f *fixture) upTo(phase, to string) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.bounded())
	defer cancel()
	f.log = slog.New(atPhase{slog.DiscardHandler, phase, cancel})
	defer func() { f.log = nil }()
	if err := f.move(ctx, to, nil); !errors.Is(err, context.Canceled) || f.phase() != phase {
		f.Fatalf("the move is %q: %v", f.phase(), err)
	}
}

// atPhase kills a move that says that it is in a phase.
type atPhase struct {
	slog.Handler
	phase string
	kill  context.CancelFunc
}

func (atPhase) Enabled(context.Context, slog.Level) bool { return true }

func (h atPhase) Handle(_ context.Context, said slog.Record) error {
	said.Attrs(func(a slog.Attr) bool {
		if a.Key == "phase" && a.Value.String() == h.phase {
			h.kill()
		}
		return true
	})
	return nil
}

func (f *fixture) phase() (phase string) {
	f.Helper()
	if err := f.Direct.QueryRow(f.Context(), `SELECT COALESCE((SELECT phase FROM tenant_moves), '')`).Scan(&phase); err != nil {
		f.Fatal(err)
	}
	return phase
}

// With the fence closed, every kind of write is refused, and what it would have changed is as it was.
func TestTheFenceRefusesWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Inhabit(f.Tenant)
	ids := f.Submit(f.Jobs(3)...)
	f.Lane = f.NewLane(f.Tenant, "default")
	held := f.ClaimOne()
	f.upTo(move.Left, other)
	before := contents(f.Fixture, f.Tenant)
	ctx := audit.WithActor(f.bounded(), audit.Actor{Kind: "operator"})
	every := int64(60_000)
	for name, write := range map[string]func() error{
		"submit": func() error {
			_, err := f.Store.Submits.Submit(ctx, []submit.Submission{{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job()}, Render: celltest.Render}})
			return err
		},
		"keyed submit": func() error {
			_, err := f.Store.Submits.Submit(ctx, []submit.Submission{f.Single(celltest.Keyed("new", "b"))})
			return err
		},
		"complete": func() error { return f.End(jobs.Ending{Lease: held.Lease(), Kind: api.KindComplete}).Err },
		"fail":     func() error { return f.End(jobs.Ending{Lease: held.Lease(), Kind: api.KindFail}).Err },
		"release":  func() error { return f.End(jobs.Ending{Lease: held.Lease(), Kind: api.KindRelease}).Err },
		"heartbeat": func() error {
			_, err := f.Store.Jobs.Report(ctx, []jobs.Report{{Lease: held.Lease()}})
			return err
		},
		"cancel": func() error { _, _, err := f.Store.Jobs.Cancel(ctx, f.Tenant, "", ids[2]); return err },
		"lane": func() error {
			_, err := f.Store.Lanes.Ensure(ctx, f.Tenant, []lanes.Ask{{Key: lanes.NewKey(f.Tenant, "new", "test", nil)}})
			return err
		},
		"queue": func() error {
			return f.Store.Queues.Put(ctx, f.Tenant, "default", api.QueueRequest{MaxRunning: new(int64(1))})
		},
		"schedule": func() error {
			_, err := f.Store.Schedules.PutSchedule(ctx, f.Tenant, "", "new", api.ScheduleRequest{EveryMS: &every, Job: api.ScheduleJob{Type: "t"}})
			return err
		},
		"type": func() error {
			_, _, err := f.Store.JobTypes.PutType(ctx, f.Tenant, "new", jobtypes.Definition{})
			return err
		},
		"redrive": func() error {
			_, err := f.Store.DeadLetters.CreateRedrive(ctx, f.Tenant, "", deadletter.NewRedrive{ID: uuid.Must(uuid.NewV7()), Action: api.ActionRedrive})
			return err
		},
	} {
		if err := write(); !errors.Is(err, store.ErrTenantMoved) {
			t.Errorf("%s: %v", name, err)
		} else if owner, is := store.MovedTenantOf(err); !is || owner != f.Tenant {
			t.Errorf("%s: the error is of %v", name, owner)
		}
	}
	for table, rows := range contents(f.Fixture, f.Tenant) {
		if len(rows) != len(before[table]) {
			t.Errorf("%d %s, were %d", len(rows), table, len(before[table]))
		}
	}
	// the rest of the move takes them along
	f.mustMove(other)
	sound(f.there, "the target")
}

// Duties and claims that find rows of a tenant whose fence is closed leave them, and do the others'.
func TestDutiesGoOnBesideAClosedFence(t *testing.T) {
	t.Parallel()
	t.Run("counted by tenant", func(t *testing.T) {
		t.Parallel()
		dutiesGoOn(t)
	})
	t.Run("counted all together", func(t *testing.T) { // FORGEQUEUE_MAX_RUNNING
		t.Parallel()
		dutiesGoOn(t, caps.Cap{CountKey: caps.CountKey{Tenant: tenant.Platform, Counter: caps.RunningAll}, Limit: 1000})
	})
}

// claimed leases jobs under caps that are not of their tenant alone.
func (f *fixture) claimed(most int, together []caps.Cap, lanes ...lanes.Lane) []claim.Job {
	f.Helper()
	request := claim.Request{Workers: []claim.Worker{{ID: "w1", Max: most}}, Owner: tenant.Platform, LeaseID: uuid.New()}
	for _, lane := range lanes {
		request.Lanes = append(request.Lanes, claim.Lane{ID: lane.ID, Tenant: lane.Tenant, VisibilityTimeout: time.Minute, Caps: together})
	}
	taken, err := f.Store.Claims.Claim(f.Context(), request)
	if err != nil {
		f.Fatal(err)
	}
	return taken.Jobs
}

func dutiesGoOn(t *testing.T, together ...caps.Cap) {
	t.Helper()
	f := newFixture(t)
	f.capped()
	neighbour := &celltest.Fixture{T: t, URL: f.URL, Store: f.Store, Direct: f.Direct, Tenant: f.NewTenant()}
	neighbour.Lane = neighbour.NewLane(neighbour.Tenant, "default")
	both := []*celltest.Fixture{f.Fixture, neighbour}
	for _, one := range both {
		caps := celltest.Under(one.ActiveCap(1_000_000))
		one.Submit(one.Jobs(4, caps)...)
		if n := len(f.claimed(2, together, one.Lane)); n != 2 {
			t.Fatalf("claimed %d", n)
		}
		one.Submit(one.Job(caps, func(j *submit.NewJob) { j.Delay = time.Hour }))
		one.Submit(one.Job(caps, func(j *submit.NewJob) { j.Deadline = new(time.Now().Add(time.Hour)) }))
		one.Exec(`INSERT INTO workers (owner, worker_id, status, queues, tags, concurrency, metadata, registered_at, last_heartbeat_at)
			VALUES ($1, 'silent', 'ACTIVE', '{}', '{}', 1, '{}', now() - interval '1 hour', now() - interval '1 hour')`, one.Tenant)
	}
	f.Exec(`INSERT INTO workers (owner, worker_id, status, queues, tags, concurrency, metadata, registered_at, last_heartbeat_at)
		VALUES ($1, 'w1', 'DEAD', '{}', '{}', 1, '{}', now(), now())`, tenant.Platform)
	f.Exec(`UPDATE jobs SET run_at = now() - interval '1 second' WHERE state = 'scheduled'`)
	f.Exec(`UPDATE jobs SET deadline = now() - interval '1 second' WHERE deadline IS NOT NULL`)
	f.Exec(`UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE state = 'running' AND id IN (SELECT DISTINCT ON (tenant_id) id FROM jobs WHERE state = 'running')`)
	f.upTo(move.Left, other)
	before := contents(f.Fixture, f.Tenant)

	if taken := f.claimed(10, together, f.Lane, neighbour.Lane); len(taken) != 2 || taken[0].TenantID != neighbour.Tenant {
		t.Errorf("claimed %d", len(taken))
	}
	if due, err := f.Store.Jobs.Promote(t.Context(), jobs.AllTime, 10); err != nil || len(due) != 1 {
		t.Errorf("promoted %v, %v", due, err)
	}
	f.Reap()
	if lost, err := f.Store.Jobs.ReapDead(t.Context(), 10, func() float64 { return 0 }); err != nil || len(lost) == 0 {
		t.Errorf("reaped of dead workers %v, %v", lost, err)
	}
	if expired, err := f.Store.Jobs.ExpireDeadlines(t.Context(), jobs.AllTime, 10); err != nil || len(expired) == 0 {
		t.Errorf("expired %v, %v", expired, err)
	}
	if _, err := f.Store.Workers.Age(t.Context(), time.Unix(0, 0)); err != nil {
		t.Error(err)
	}
	for table, rows := range contents(f.Fixture, f.Tenant) {
		if len(rows) != len(before[table]) {
			t.Errorf("%d %s, were %d", len(rows), table, len(before[table]))
		}
		for i := range rows {
			if rows[i] != before[table][i] {
				t.Errorf("%s: %s was %s", table, rows[i], before[table][i])
			}
		}
	}
	if n := f.CountOf(`SELECT count(*) FROM dead_letters WHERE tenant_id = $1`, neighbour.Tenant); n != 1 {
		t.Errorf("%d of the neighbour's jobs are past their deadline", n)
	}
	sound(f.Fixture, "beside a closed fence")
	f.mustMove(other)
	sound(f.there, "the target")
	sound(f.Fixture, "the source")
}

// A core that wakes up late cannot write into the cell that the tenant has left, until the move has ended.
func TestALateWriteIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job())
	late := f.ClaimOne()
	f.upTo(move.Removing, other)
	if _, err := f.Store.Submits.Submit(t.Context(), []submit.Submission{{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job()}, Render: celltest.Render}}); !errors.Is(err, store.ErrTenantMoved) {
		t.Errorf("submit: %v", err)
	}
	if _, err := f.Store.Lanes.Ensure(t.Context(), f.Tenant, []lanes.Ask{{Key: lanes.NewKey(f.Tenant, "default", "test", nil)}}); !errors.Is(err, store.ErrTenantMoved) {
		t.Errorf("lane: %v", err)
	}
	if outcome := f.End(jobs.Ending{Lease: late.Lease(), Kind: api.KindComplete}); !errors.Is(outcome.Err, store.ErrTenantMoved) {
		t.Errorf("complete: %v", outcome.Err)
	}
	f.mustMove(other)
	if n := f.CountOf(`SELECT count(*) FROM jobs WHERE tenant_id = $1`, f.Tenant); n > 0 {
		t.Errorf("%d jobs", n)
	}
	f.there.Lane = f.there.NewLane(f.Tenant, "default")
	f.there.MustEnd(jobs.Ending{Lease: f.there.ClaimOne().Lease(), Kind: api.KindComplete})
	// back again: it is open in both senses
	f.mustMove("")
	f.Lane = f.NewLane(f.Tenant, "default")
	f.Submit(f.Job())
	if got := f.Get(late.ID); got.State != string(job.Completed) {
		t.Errorf("%+v", got)
	}
	if n := f.CountOf(`SELECT count(*) FROM tenant_fences`) + f.there.CountOf(`SELECT count(*) FROM tenant_fences`); n > 0 {
		t.Errorf("%d fences are left", n)
	}
}
