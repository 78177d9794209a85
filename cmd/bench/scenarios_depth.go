package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/cmd/bench/internal/wire"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// calm is a pause between filling and measuring, in which the server commits the
// fill and handles its wake-ups.
const calm = time.Second

func runBacklog(ctx context.Context, r *run) error {
	l := r.newLink()
	defer l.Close()
	f := r.newFlow()
	queued := 0
	var first, last float64
	for _, depth := range r.depths {
		if _, err := r.fill(ctx, depth-queued, r.callers); err != nil {
			return err
		}
		_ = wait.For(ctx, calm)
		name := fmt.Sprintf("claim_at_%d", depth)
		claimed, took := claimSome(ctx, f, l, name)
		queued = depth - claimed
		r.report.Jobs += int64(claimed)
		r.report.Seconds += took.Seconds()
		last = r.rec.percentile(name, 50)
		r.report.Figures[name+"_p50_ms"] = last
		if first == 0 {
			first = last
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	if first > 0 {
		r.report.Figures["p50_deepest_over_first"] = last / first
	}
	return nil
}

// claimSome claims and completes one batch after the other, on one connection.
func claimSome(ctx context.Context, f *flow, l *wire.Link, name string) (claimed int, took time.Duration) {
	r := f.run
	r.doing(name, 0, nil)
	ask := wire.Claim{Worker: r.id, Queue: f.queue, Max: f.claimBatch}
	begun := time.Now()
	for range r.claims {
		asked := time.Now()
		if asked.Sub(begun) > r.duration || ctx.Err() != nil {
			break
		}
		leases := l.Claim(ctx, &f.consumer, ask)
		if len(leases) == 0 {
			_ = wait.For(ctx, l.PauseFor)
			continue
		}
		r.rec.took(name, time.Since(asked))
		completed := l.Complete(ctx, &f.consumer, leases)
		r.rec.finished.Add(int64(completed))
		claimed += completed
	}
	return claimed, time.Since(begun)
}

func runFairness(ctx context.Context, r *run) error {
	// One more tenant than the quiet ones: the last is hostile.
	hostile, err := r.endpoint.MakeCallers(ctx, 1, nil)
	if err != nil {
		return err
	}
	quiet := func(name string) *flow {
		f := r.newFlow()
		f.prefix, f.work = name+"_", r.work
		return f
	}
	r.useQueue(ctx, "-alone")
	alone := quiet("alone")
	r.doing("quiet tenants alone", alone.pace.total, alone.finished.Load)
	r.report.Seconds = alone.all(ctx).Seconds()

	r.useQueue(ctx, "-beside")
	queued, err := r.fillAt(ctx, r.backlog, hostile)
	if err != nil {
		return err
	}
	beside := quiet("beside")
	r.doing("quiet tenants beside a hostile one", beside.pace.total, beside.submitted.Load)
	took := beside.beside(ctx)
	r.report.Seconds += took.Seconds()
	r.report.Jobs = alone.finished.Load() + beside.finished.Load()
	seen := r.rec.summary()
	r.report.Figures["quiet_jobs_submitted"] = float64(beside.submitted.Load())
	r.report.Figures["quiet_jobs_started"] = float64(seen["beside_start"].Count)
	r.report.Figures["hostile_jobs_left"] = float64(queued + beside.submitted.Load() - beside.finished.Load())
	if before := seen["alone_start"].P99; before > 0 {
		r.report.Figures["p99_beside_over_alone"] = seen["beside_start"].P99 / before
	}
	return nil
}

// fillAt is fill with jobs whose latency is not recorded.
func (r *run) fillAt(ctx context.Context, n int, who []wire.Caller) (int64, error) {
	begun := r.begun
	r.begun = time.Now().Add(time.Hour) // an intended start before it is written as 0
	defer func() { r.begun = begun }()
	return r.fill(ctx, n, who)
}

// beside is all for a queue with jobs of others: it ends with the pace, after a
// pause for the last jobs.
func (f *flow) beside(ctx context.Context) time.Duration {
	begun := time.Now()
	ctx, stop := context.WithTimeout(ctx, f.pace.during+f.pace.grace)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { f.consume(ctx) })
	f.produce(ctx)
	_ = wait.For(ctx, calm)
	f.end(time.Now())
	group.Wait()
	return f.ended.Sub(begun)
}
