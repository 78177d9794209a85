package sweep_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

// scrape reads a registry: each series by its name, with its label's value behind it.
func scrape(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "forgequeue_")
			for _, label := range series.GetLabel() {
				name += " " + label.GetValue()
			}
			all[name] = series.GetGauge().GetValue() + series.GetCounter().GetValue()
		}
	}
	return all
}

func expect(t *testing.T, registry *prometheus.Registry, want map[string]float64) {
	t.Helper()
	got := scrape(t, registry)
	for name, value := range want {
		if seen, known := got[name]; !known || seen != value {
			t.Errorf("%s is %v, not %v", name, seen, value)
		}
	}
}

func TestDepths(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	registry := prometheus.NewRegistry()
	depths, counted := metrics.NewDepths(registry), metrics.NewJobs(registry)
	var duty *sweep.Duty
	measure := func() {
		t.Helper()
		// as a core without a recent measurement: a measurement is relied on for a while
		duty = sweep.New(f.store, f.newCore(f.wake).Engine, counted, quiet()).Depths(depths)
		if _, err := duty.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, registry, map[string]float64{"depth_updated_timestamp_seconds": 0, "jobs queued": 0})
	measure()
	expect(t, registry, map[string]float64{"oldest_queued_age_seconds": 0, "jobs queued": 0, "jobs_capped queued": 0})
	if age := float64(time.Now().Unix()) - scrape(t, registry)["depth_updated_timestamp_seconds"]; age > 30 {
		t.Errorf("measured %v s ago", age)
	}

	f.submit(1, 0)
	f.claimAndExpire(1)
	f.submit(2, time.Hour)
	waiting := f.submit(3, 0)
	f.exec(`UPDATE jobs SET ready_at = ready_at - interval '90 seconds', priority = 9 WHERE id = $1`, waiting[1])
	for worker, wasOutage := range map[string]string{"new": "0", "old": "31 seconds", "gone": "121 seconds"} {
		if _, _, err := f.store.Workers.Register(t.Context(), f.tenant, api.WorkerRequest{WorkerID: worker}); err != nil {
			t.Fatal(err)
		}
		f.exec(`UPDATE workers SET last_heartbeat_at = statement_timestamp() - $2::interval WHERE worker_id = $1`, worker, wasOutage)
	}
	if _, err := f.store.Workers.Age(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	measure()
	expect(t, registry, map[string]float64{
		"jobs blocked": 0, "jobs scheduled": 2, "jobs queued": 3, "jobs running": 1, "jobs dead_letter": 0,
		"workers active": 1, "workers stale": 1, "workers dead": 1,
	})
	if age := scrape(t, registry)["oldest_queued_age_seconds"]; age < 90 || age > 200 {
		t.Errorf("the oldest has waited for %v s", age)
	}

	// A failed run leaves the time of the last one.
	before := scrape(t, registry)
	f.store.Close()
	if _, err := duty.RunOnce(t.Context()); err == nil {
		t.Fatal("no error without a database")
	}
	expect(t, registry, map[string]float64{"depth_updated_timestamp_seconds": before["depth_updated_timestamp_seconds"], "jobs queued": 3})
}

// Workers that come, are lost and come back are counted, and so are the jobs that the
// lost ones held.
func TestWorkersAreCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	registry := prometheus.NewRegistry()
	counted := metrics.NewJobs(registry)
	duty := sweep.NewWorkers(f.duties(counted))
	duty.Answered(f.now(), f.now().Add(-time.Hour))
	wasOutage := func(span string) {
		t.Helper()
		f.exec(`UPDATE workers SET last_heartbeat_at = statement_timestamp() - $1::interval`, span)
		if err := duty.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := f.store.Workers.SeenClaiming(t.Context(), f.tenant, "w1", workers.Claiming{Queues: []string{"default"}}); err != nil {
		t.Fatal(err)
	}
	f.submit(1, 0)
	f.claimAndExpire(1)
	f.exec(`UPDATE jobs SET lease_expires_at = lease_expires_at + interval '1 hour' WHERE state = 'running'`)
	wasOutage("121 seconds")
	expect(t, registry, map[string]float64{
		"workers_lost_total": 1, "workers_pruned_total": 0, "jobs_requeued_total worker_dead": 1, "jobs_requeued_total lease_expired": 0,
	})
	wasOutage("25 hours")
	expect(t, registry, map[string]float64{"workers_lost_total": 1, "workers_pruned_total": 1})
}

// forgetOnce runs all duties of retention.
func (f *fixture) forgetOnce(m ...*metrics.Jobs) {
	f.Helper()
	for _, duty := range f.duties(m...).Retention() {
		if _, err := duty.RunOnce(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

// What retention removes is counted by kind.
func TestWhatIsForgottenIsCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.url, MaxConns: 4, PoolWait: 5 * time.Second}, Retention: retention.Periods{
		Finished: 24 * time.Hour, DeadLetters: 24 * time.Hour, Audit: 24 * time.Hour,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	f.submit(2, 0, func(j *submit.NewJob) { j.MaxAttempts = 1 })
	f.claimAndExpire(2)
	if reaped, err := store.Jobs.Reap(t.Context(), time.Now().Add(-time.Hour), 10, func() float64 { return 0 }); err != nil || len(reaped) != 2 || reaped[0].Verdict.State != job.DeadLetter {
		t.Fatalf("%+v %v", reaped, err)
	}
	f.exec(`UPDATE dead_letters SET died_at = died_at - interval '2 days'`)
	f.exec(`INSERT INTO audit_log (id, actor_kind, action, detail, at) VALUES ($1, 'operator', 'test', '{}', now() - interval '2 days')`, uuid.New())
	f.exec(`INSERT INTO redrives (id, tenant_id, action, filter, state, matched, matched_capped, next_at, created_at, updated_at, ended_at)
	        VALUES ($1, $2, 'redrive', '{}', 'done', 0, false, now(), now(), now(), now() - interval '2 days')`, uuid.New(), f.tenant)
	f.exec(`INSERT INTO idempotency_keys (tenant_id, user_id, operation, key, fingerprint, job_ids, status, answer, created_at)
	        SELECT $1, '', 'submit', n::text, decode(repeat('00', 32), 'hex'), '{}', 202, '{}', now() - interval '2 days' FROM generate_series(1, 3) n`, f.tenant)
	f.exec(`CREATE TABLE finished_jobs_20200101 (LIKE finished_jobs INCLUDING ALL)`)
	f.exec(`INSERT INTO finished_jobs_20200101 (id, tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, attempt, max_attempts, epoch, redrives,
	                                            retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, cancel_requested, finished_at)
	        SELECT gen_random_uuid(), $1, 1, 'default', 'test', 'completed', 5, 'null', '{}', '{}', 1, 3, 1, 0, 1, 1, 0, now(), now(), false, '2020-01-01' FROM generate_series(1, 5)`, f.tenant)
	f.exec(`ANALYZE finished_jobs_20200101`)
	f.exec(`ALTER TABLE finished_jobs ATTACH PARTITION finished_jobs_20200101 FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')`)
	registry := prometheus.NewRegistry()
	f.store = store
	f.forgetOnce(metrics.NewJobs(registry))
	expect(t, registry, map[string]float64{
		"jobs_cleaned_total dead_letter": 2, "jobs_cleaned_total audit": 1, "jobs_cleaned_total redrive": 1,
		"jobs_cleaned_total idempotency_key": 3, "jobs_cleaned_total finished": 5, "jobs_cleaned_total attempt": 0,
	})
}

// A queue that is named has series of its own, until it is deleted; others have none.
func TestNamedQueues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(3, 0)
	f.submit(1, time.Hour)
	f.exec(`UPDATE jobs SET ready_at = ready_at - interval '1 minute'`)
	registry := prometheus.NewRegistry()
	duty := f.duties().NamedQueues(metrics.NewQueues(registry), []tenant.QueueKey{{Tenant: f.tenant, Name: "default"}, {Tenant: f.tenant, Name: "nowhere"}})
	measure := func() map[string]float64 {
		t.Helper()
		if _, err := duty.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		return scrape(t, registry)
	}
	of := "default " // labels are in the order of their names
	got := measure()
	for series, want := range map[string]float64{
		"queue_jobs " + of + "queued " + f.tenant.String(): 3, "queue_jobs " + of + "scheduled " + f.tenant.String(): 1,
		"queue_jobs " + of + "running " + f.tenant.String(): 0, "queue_desired_slots " + of + f.tenant.String(): 1,
	} {
		if value, there := got[series]; !there || value != want {
			t.Errorf("%s is %v (%v), want %v", series, value, there, want)
		}
	}
	if age := got["queue_oldest_queued_age_seconds "+of+f.tenant.String()]; age < 60 || len(got) != 8 {
		t.Errorf("%v of %v", age, got)
	}
	f.exec(`DELETE FROM jobs`)
	f.exec(`DELETE FROM queues`)
	if left := measure(); len(left) != 0 {
		t.Errorf("of a queue that is deleted: %v", left)
	}
}
