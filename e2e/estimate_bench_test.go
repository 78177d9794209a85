package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// drainage is a steady drain: jobs that wait, and workers that take them.
type drainage struct {
	name string
	// tenants have so many jobs each, of so many types; high says that the first type's priority is higher.
	tenants, jobs, types int
	high                 bool
	// workers hold one job each, for so long; or atOnce jobs, of a platform key where there are several tenants.
	workers, atOnce int
	long            time.Duration
	queue           map[string]any
	// cores is how many there are; workers take turns among them, and only the first one is asked.
	cores int
}

// How near the estimates of explain come to what then happens: jobs at random places in steady drains, asked once the
// drain has gone on for some seconds. A job without an estimate counts as missed.
//
//	go test -run '^$' -bench Estimate -benchtime 1x ./e2e
func BenchmarkEstimate(b *testing.B) {
	for _, one := range []drainage{
		{name: "one type", tenants: 1, jobs: 1200, types: 1, workers: 4, atOnce: 1, long: 50 * time.Millisecond},
		{name: "two types, two priorities", tenants: 1, jobs: 1200, types: 2, high: true, workers: 4, atOnce: 1, long: 50 * time.Millisecond},
		{name: "50 types", tenants: 1, jobs: 1200, types: 50, workers: 4, atOnce: 1, long: 50 * time.Millisecond},
		{name: "20 tenants, platform", tenants: 20, jobs: 60, types: 1, workers: 4, atOnce: 1, long: 50 * time.Millisecond},
		{name: "a rate of 50 a second", tenants: 1, jobs: 800, types: 1, workers: 4, atOnce: 10, long: 10 * time.Millisecond, queue: map[string]any{"rate_per_second": 50}},
		{name: "at most 2 running", tenants: 1, jobs: 500, types: 1, workers: 8, atOnce: 1, long: 50 * time.Millisecond, queue: map[string]any{"max_running": 2}},
		{name: "long jobs", tenants: 1, jobs: 60, types: 1, workers: 8, atOnce: 1, long: 2 * time.Second},
		{name: "two cores", tenants: 1, jobs: 1200, types: 2, workers: 4, atOnce: 1, long: 50 * time.Millisecond, cores: 2},
		{name: "200 at once, every 2 s", tenants: 1, jobs: 2000, types: 1, workers: 1, atOnce: 200, long: 2 * time.Second},
	} {
		b.Run(one.name, func(b *testing.B) {
			for b.Loop() {
				one.run(b)
			}
		})
	}
}

// asked is what explain said of a job, and when.
type asked struct {
	id       string
	at       time.Time
	estimate *api.Estimate
}

func (s drainage) run(b *testing.B) {
	b.Helper()
	c := stack.NewCluster(b, stack.ClusterOptions{Cores: max(s.cores, 1), Gateways: max(s.cores, 1)})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	type owned struct {
		client *client.Client
		id     string
	}
	var jobs []owned
	var key string
	for i := range s.tenants {
		tenant := c.NewTenant(b, fmt.Sprint("t", i))
		if s.queue != nil {
			c.SetQueue(b, tenant, api.DefaultQueue, s.queue)
		}
		key = tenant.Key
		owner := c.Client(b, key)
		var batch []api.SubmitRequest
		for n := range s.jobs {
			request := api.SubmitRequest{Type: fmt.Sprint("type", n%s.types)}
			if s.high && n%s.types == 0 {
				request.Priority = new(8)
			}
			batch = append(batch, request)
		}
		for some := range slices.Chunk(batch, 500) {
			stored, err := owner.SubmitBatch(ctx, api.BatchRequest{Jobs: some})
			if err != nil || stored.Rejected > 0 {
				b.Fatal(err, stored.Rejected)
			}
			for _, result := range stored.Results {
				jobs = append(jobs, owned{owner, result.Job.ID})
			}
		}
	}
	if s.tenants > 1 {
		key = c.NewPlatformKey(b)
	}
	var group sync.WaitGroup
	for i := range s.workers {
		work, err := client.New(client.Options{URL: c.Gateways[i%len(c.Gateways)].URL, APIKey: key})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(work.CloseIdleConnections)
		group.Go(func() { s.work(ctx, work, fmt.Sprint("w", i)) })
	}
	stack.Eventually(b, time.Minute, "the drain to be known", func() bool {
		made, err := jobs[len(jobs)-1].client.Explain(ctx, jobs[len(jobs)-1].id)
		return err == nil && made.Estimate != nil
	})
	_ = wait.For(ctx, max(3*time.Second, 2*s.long))
	rand.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	var all []asked
	for _, job := range jobs {
		at := time.Now()
		made, err := job.client.Explain(ctx, job.id)
		if err != nil {
			b.Fatal(err)
		}
		if made.State == api.StateQueued {
			all = append(all, asked{job.id, at, made.Estimate})
		}
		if len(all) == 60 {
			break
		}
	}
	stack.Eventually(b, 2*time.Minute, "all to have started", func() bool {
		return stack.Query[int64](ctx, b, c.DatabaseURL, `SELECT count(*) FROM jobs WHERE state = 'queued'`)[0] == 0
	})
	started := map[string]time.Time{}
	_ = wait.For(ctx, s.long+time.Second)
	for _, one := range all {
		for _, at := range stack.Query[time.Time](ctx, b, c.DatabaseURL, `SELECT started_at FROM finished_jobs WHERE id = $1 UNION ALL SELECT started_at FROM jobs WHERE id = $1`, one.id) {
			started[one.id] = at
		}
	}
	cancel()
	group.Wait()
	s.report(b, all, started)
}

func (s drainage) work(ctx context.Context, c *client.Client, id string) {
	for ctx.Err() == nil {
		claimed, err := c.Claim(ctx, api.ClaimRequest{WorkerID: id, Queues: []string{api.DefaultQueue}, Max: &s.atOnce, WaitMS: new(int64(1000))})
		if err != nil || len(claimed.Jobs) == 0 {
			continue
		}
		_ = wait.For(ctx, s.long)
		outcomes := make([]api.OutcomeRequest, len(claimed.Jobs))
		for i, job := range claimed.Jobs {
			outcomes[i] = api.OutcomeRequest{JobID: job.ID, Kind: api.KindComplete, LeaseToken: job.LeaseToken}
		}
		_, _ = c.Outcomes(ctx, outcomes)
	}
}

func (s drainage) report(b *testing.B, all []asked, started map[string]time.Time) {
	b.Helper()
	var ratios []float64
	within, unknown := 0, 0
	for _, one := range all {
		if one.estimate == nil {
			unknown++
			continue
		}
		ratio := float64(one.estimate.StartsInMS) / max(float64(started[one.id].Sub(one.at).Milliseconds()), 1)
		if ratios = append(ratios, ratio); ratio >= 0.5 && ratio <= 2 {
			within++
		}
	}
	slices.Sort(ratios)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(all)), "jobs")
	b.ReportMetric(float64(unknown), "unknown")
	b.ReportMetric(float64(within)/float64(max(len(all), 1)), "within-2x")
	if len(ratios) > 0 {
		b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
	}
	b.Logf("%s: %.2f", s.name, ratios)
}
