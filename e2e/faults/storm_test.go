package faults_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// stormSQL makes copies of a queued job that are running, and whose leases all end at
// one moment.
const stormSQL = `
INSERT INTO jobs (id, tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, attempt, max_attempts, epoch, retry_base_ms,
                  retry_cap_ms, retry_jitter, created_at, run_at, started_at, worker_id, worker_owner, lease_id, lease_expires_at, visibility_timeout_ms, size)
SELECT gen_random_uuid(), tenant_id, lane_id, queue, type, 'running', priority, payload, tags, metadata, 1, 3, 1, retry_base_ms,
       retry_cap_ms, retry_jitter, created_at, run_at, statement_timestamp(), 'gone', tenant_id, gen_random_uuid(),
       statement_timestamp() + $2::interval, 3000, size
FROM jobs, generate_series(1, $1) WHERE queue = 'storm' AND state = 'queued'`

// claimLoop claims and completes one job after another, and notes how long each claim
// took, until stop is called.
func (l *load) claimLoop(n int) (stop func() []time.Duration) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var group sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	for range n {
		c := l.client()
		group.Go(func() {
			for ctx.Err() == nil {
				begun := time.Now()
				claimed, err := c.Claim(ctx, api.ClaimRequest{WorkerID: "steady", Queues: []string{loadQueue}})
				if err != nil || len(claimed.Jobs) != 1 {
					if ctx.Err() == nil {
						l.t.Errorf("%d claimed: %v", len(claimed.Jobs), err)
					}
					return
				}
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
				job := claimed.Jobs[0]
				if _, err := c.Complete(context.WithoutCancel(ctx), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
					l.t.Error(err)
				}
				pace(ctx, 10*time.Millisecond)
			}
		})
	}
	return func() []time.Duration { cancel(); group.Wait(); return took }
}

func percentile(took []time.Duration, p float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(int(p*float64(len(took))), len(took)-1)].Round(100 * time.Microsecond)
}

// The leases of very many jobs end at once: they are taken back in bounded batches, none
// is lost, and another tenant's claims go on meanwhile; an old snapshot is held open.
func TestMassExpiryUnderLoad(t *testing.T) {
	furtherFault(t, "TestWorkerPausedPastItsLease")
	t.Parallel()
	n := lane(1500, 100_000)
	cluster := stack.NewCluster(t, stack.ClusterOptions{})
	storm, steady := newLoad(t, cluster, 3*time.Second), newLoad(t, cluster, stack.Patience(30*time.Second))
	first := storm.request()
	first.Queue = "storm"
	if _, err := storm.client().Submit(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	steady.stock(steady.client(), lane(2500, 20_000))
	conn, err := pgx.Connect(t.Context(), cluster.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), stormSQL, n, time.Hour); err != nil {
		t.Fatal(err)
	}
	// A snapshot from before the storm keeps every entry that the reaper leaves behind.
	old, err := pgx.Connect(t.Context(), cluster.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close(context.WithoutCancel(t.Context())) }()
	if _, err := old.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs`); err != nil {
		t.Fatal(err)
	}
	running := func() int {
		left := stack.Query[int](t.Context(), t, cluster.DatabaseURL, `SELECT count(*)::integer FROM jobs WHERE queue = 'storm' AND state = 'running'`)
		if len(left) != 1 {
			return -1
		}
		return left[0]
	}
	stop := steady.claimLoop(2)
	pace(t.Context(), time.Duration(lane(2, 10))*time.Second)
	before := stop()
	if left := running(); left != n {
		t.Fatalf("%d of %d leases are left before the storm", left, n)
	}
	if _, err := conn.Exec(t.Context(), `UPDATE jobs SET lease_expires_at = statement_timestamp() WHERE queue = 'storm' AND state = 'running'`); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the storm to begin", func() bool { return running() < n })
	begun := time.Now()
	stop = steady.claimLoop(2)
	stack.Eventually(t, time.Minute+time.Duration(n/500)*time.Second, "every lease to be taken back", func() bool { return running() == 0 })
	lasted := time.Since(begun)
	during := stop()

	type facts struct{ Back, Attempts, Batches, Largest, Instants int }
	rows, err := conn.Query(t.Context(), `
SELECT (SELECT count(*) FROM jobs WHERE queue = 'storm' AND state = 'queued' AND attempt = 1 AND epoch = 1)::integer AS back,
       (SELECT count(*) FROM attempts WHERE kind = 'lease_expired')::integer AS attempts,
       (SELECT count(DISTINCT ended_at) FROM attempts WHERE kind = 'lease_expired')::integer AS batches,
       (SELECT max(c) FROM (SELECT count(*) AS c FROM attempts WHERE kind = 'lease_expired' GROUP BY ended_at) AS b)::integer AS largest,
       (SELECT count(DISTINCT ready_at) FROM jobs WHERE queue = 'storm' AND epoch = 1)::integer AS instants`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[facts])
	if err != nil || got.Back != n || got.Attempts != n || got.Largest > 500 || got.Instants < n/500 {
		t.Errorf("of %d: %+v, %v", n, got, err)
	}
	if len(before) == 0 || len(during) == 0 {
		t.Fatalf("%d claims before, %d during", len(before), len(during))
	}
	if worst := percentile(during, 1); worst > stack.Patience(10*time.Second) { // a hang guard
		t.Errorf("a claim took %v", worst)
	}
	t.Logf("%d leases taken back in %.1f s, %d batches, the largest of %d; claims before: %d, p50 %v, p99 %v, most %v; during: %d, p50 %v, p99 %v, most %v",
		n, lasted.Seconds(), got.Batches, got.Largest, len(before), percentile(before, .5), percentile(before, .99), percentile(before, 1),
		len(during), percentile(during, .5), percentile(during, .99), percentile(during, 1))
}

// stock submits jobs for others to claim.
func (l *load) stock(c *client.Client, n int) {
	l.t.Helper()
	for left := n; left > 0; left -= min(left, api.MaxBatchJobs) {
		jobs := make([]api.SubmitRequest, min(left, api.MaxBatchJobs))
		for i := range jobs {
			jobs[i] = l.request()
		}
		if answer, err := c.SubmitBatch(l.t.Context(), api.BatchRequest{Jobs: jobs}); err != nil || answer.Accepted != len(jobs) {
			l.t.Fatal(answer.Accepted, err)
		}
	}
}
