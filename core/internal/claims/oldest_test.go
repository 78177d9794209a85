package claims_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/shared/api"
)

// oldest gives how long ago the oldest job became ready, -1 where none waits.
func (f *fixture) oldest(d *enginetest.Core) time.Duration {
	f.Helper()
	at, err := d.OldestReady(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	if at.IsZero() {
		return -1
	}
	now, err := f.Store.Now(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return now.Sub(at)
}

// Paused or not, claimed from or not, with a notification or not: the job that has waited longest
// is found, by a core that has claimed and by one that has just come up.
func TestOldestReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fresh := func() *enginetest.Core { return f.NewCore(f.Store) }
	if got := f.oldest(f.D); got != -1 {
		t.Errorf("nothing waits, for %v", got)
	}
	ids := f.Submit(enginetest.In("a"), enginetest.In("a"), enginetest.In("paused"), enginetest.In("b"))
	for i, age := range []string{"4 hours", "3 hours", "2 hours", "1 hour"} {
		f.Exec(`UPDATE jobs SET ready_at = ready_at - $2::interval WHERE id = $1`, ids[i], age)
	}
	f.Exec(`UPDATE queues SET paused = (name = 'paused'), updated_at = statement_timestamp()`)
	f.Refresh()
	near := func(got, want time.Duration) bool { return got >= want && got < want+time.Minute }
	for name, d := range map[string]*enginetest.Core{"new": fresh(), "another": fresh()} {
		if got := f.oldest(d); !near(got, 4*time.Hour) {
			t.Errorf("by a %s core it has waited for %v", name, got)
		}
	}
	claimer := fresh()
	if err := claimer.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	call := f.ClaimCall("a", "paused", "b")
	if jobs, err := claimer.Claim(t.Context(), call); err != nil || len(jobs) != 3 {
		t.Fatalf("claimed %d: %v", len(jobs), err)
	}
	for name, d := range map[string]*enginetest.Core{"new": fresh(), "claiming": claimer} {
		if got := f.oldest(d); !near(got, 2*time.Hour) {
			t.Errorf("by a %s core it has waited for %v", name, got)
		}
	}
}

// A core without claims measures the oldest job now and then. The next claim
// there finds a job that another core has stored since, in a queue that had none before
// and with no word of it, all the same.
func TestMeasuringTheOldestHidesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.NewCore(f.Store)
	if got := f.oldest(d); got != -1 {
		t.Fatalf("nothing waits, for %v", got)
	}
	f.Submit(enginetest.In("new"))
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if jobs, err := d.Claim(t.Context(), f.ClaimCall("new")); err != nil || len(jobs) != 1 {
		t.Errorf("claimed %d: %v", len(jobs), err)
	}
}

// A job that its owner cancels while its claim fails to arrive ends as it goes back, and
// counts as cancelled, not as requeued.
func TestWhatIsGivenBackCancelledHasEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	registry := prometheus.NewRegistry()
	counted := metrics.NewJobs(registry)
	d := f.NewCoreWith(engine.Options{Store: f.Store, Metrics: counted})
	id := f.Submit(enginetest.Plain())[0]
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	taken, err := d.Claim(t.Context(), f.ClaimCall())
	if err != nil || len(taken) != 1 {
		t.Fatalf("%+v %v", taken, err)
	}
	if _, requested, err := d.Cancel(t.Context(), f.Tenant, "", id); err != nil || !requested {
		t.Fatalf("requested: %v, %v", requested, err)
	}
	d.GiveBack(t.Context(), taken)
	if got := f.Get(id); got.State != api.StateCancelled {
		t.Errorf("%+v", got.JobSummary)
	}
	d.GiveBack(t.Context(), taken) // a repeat is none
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			want := map[string]float64{
				"forgequeue_jobs_cancelled_total": 1, "forgequeue_jobs_claimed_total": 1, "forgequeue_workers_registered_total": 1,
			}[family.GetName()]
			if got := series.GetCounter().GetValue(); got != want {
				t.Errorf("%s is %v, not %v", family.GetName(), got, want)
			}
		}
	}
}
