package sweep_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// fixture is a database with one lane, and what the duties tell other cores.
type fixture struct {
	testing.TB
	url    string
	store  *cell.Cell
	direct *pgx.Conn
	tenant tenant.ID
	lane   lanes.Lane

	d *enginetest.Core

	mu    sync.Mutex
	woken []lanes.ID
	// batches gets a value at each wake-up that names a lane.
	batches chan struct{}
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{TB: t, url: celltest.URL(t), tenant: uuid.Must(uuid.NewV7()), batches: make(chan struct{}, 10_000)}
	f.store = celltest.OpenURL(t, f.url)
	f.direct = celltest.Connect(t, f.url)
	made, err := f.store.Lanes.Ensure(t.Context(), f.tenant, []lanes.Ask{{Key: lanes.NewKey(f.tenant, "default", "test", nil)}})
	if err != nil {
		t.Fatal(err)
	}
	f.lane = made[0].Lane
	f.d = f.newCore(f.wake)
	return f
}

// newCore makes a core that publishes wake-ups to other cores, where they are seen.
func (f *fixture) newCore(wake func([]jobs.Waiting)) *enginetest.Core {
	return enginetest.NewCore(engine.Options{Store: f.store, Metrics: counted(), Logger: quiet(), Hints: publish.Hints{Ready: wake}})
}

func (f *fixture) wake(lists []jobs.Waiting) {
	var lanes []lanes.ID
	for _, list := range lists {
		for range list.Jobs {
			lanes = append(lanes, list.Lane)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.woken = append(f.woken, lanes...)
	if len(lanes) > 0 {
		f.batches <- struct{}{}
	}
}

func (f *fixture) wakeUps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.woken)
}

func counted() *metrics.Jobs { return metrics.NewJobs(prometheus.NewRegistry()) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// duties makes duties of the fixture's core, or else of a new one with these metrics.
func (f *fixture) duties(m ...*metrics.Jobs) sweep.Duties {
	if len(m) == 0 {
		return sweep.New(f.store, f.d.Engine, counted(), quiet())
	}
	core := enginetest.NewCore(engine.Options{Store: f.store, Metrics: m[0], Logger: quiet(), Hints: publish.Hints{Ready: f.wake}})
	return sweep.New(f.store, core.Engine, m[0], quiet())
}

// run runs a duty until stop is called or the test ends.
func (f *fixture) run(duty func(context.Context) error) (stop func()) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := duty(ctx); err != nil {
			f.Errorf("Run = %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	f.Cleanup(stop)
	return stop
}

// submit stores n jobs, each after a delay.
func (f *fixture) submit(n int, delay time.Duration, change ...func(*submit.NewJob)) []uuid.UUID {
	f.Helper()
	submission := submit.Submission{Tenant: f.tenant, Batch: true}
	ids := make([]uuid.UUID, n)
	for i := range n {
		ids[i] = uuid.Must(uuid.NewV7())
		made := submit.NewJob{
			ID: ids[i], Lane: f.lane.ID, Queue: "default", Type: "test", Priority: 5, Payload: []byte("null"),
			Metadata: []byte("{}"), MaxAttempts: 3, Retry: job.DefaultRetry(), Delay: delay,
		}
		for _, c := range change {
			c(&made)
		}
		submission.Jobs = append(submission.Jobs, made)
	}
	if _, err := f.store.Submits.Submit(f.Context(), []submit.Submission{submission}); err != nil {
		f.Fatal(err)
	}
	return ids
}

// claim leases at most n jobs, and makes their leases end a moment ago.
func (f *fixture) claimAndExpire(n int) {
	f.Helper()
	claimed, err := f.store.Claims.Claim(f.Context(), claim.Request{
		Lanes:   []claim.Lane{{ID: f.lane.ID, VisibilityTimeout: 30 * time.Second}},
		Workers: []claim.Worker{{ID: "w1", Max: n}}, Owner: f.tenant, LeaseID: uuid.New(),
	})
	if err != nil || len(claimed.Jobs) != n {
		f.Fatalf("claimed %d of %d: %v", len(claimed.Jobs), n, err)
	}
	f.exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 millisecond' WHERE state = 'running'`)
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.direct.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
}

// now is PostgreSQL's clock.
func (f *fixture) now() time.Time {
	f.Helper()
	now, err := f.store.Now(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return now
}

func (f *fixture) count(sql string, args ...any) (n int) {
	f.Helper()
	if err := f.direct.QueryRow(f.Context(), sql, args...).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

func (f *fixture) get(id uuid.UUID) api.Job {
	f.Helper()
	got, err := f.store.JobReads.Get(f.Context(), f.tenant, "", id)
	if err != nil {
		f.Fatal(err)
	}
	return got
}
