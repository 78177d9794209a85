package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/cmd/bench/internal/wire"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// flow is producers that submit to a queue and consumers that claim from it and
// complete, side by side.
type flow struct {
	run   *run
	queue string

	pace      pace
	producers int
	batch     int
	items     int
	callers   []wire.Caller
	// lead is how far producers may be ahead of consumers; 0 is no bound.
	lead int64

	consumer   wire.Caller
	consumers  int
	claimBatch int
	// wait is how long a claim waits for work.
	wait time.Duration
	// work is how long a consumer works on what it claimed at once.
	work time.Duration

	// prefix goes before the names of latencies.
	prefix string
	slices *sliceTimes

	submitted, finished atomic.Int64
	// target is how many there will be: known once all are submitted.
	target atomic.Int64
	done   chan struct{}
	once   sync.Once
	ended  time.Time
}

const (
	// claimWait is how long a claim waits for work.
	claimWait = time.Second
	// unknownTarget is a target above all that can be submitted.
	unknownTarget = 1 << 62
	leadPause     = 500 * time.Microsecond
)

// newFlow is a flow as the settings say, over the run's queue.
func (r *run) newFlow() *flow {
	f := &flow{
		run: r, queue: r.queue, producers: r.concurrency, batch: r.batch, items: r.items, callers: r.callers,
		consumer: r.consumer, consumers: r.consumers, claimBatch: r.claimBatch, wait: claimWait, done: make(chan struct{}),
	}
	f.target.Store(unknownTarget)
	rate := r.rate
	if r.closed {
		rate = 0
	}
	f.pace = newPace(rate, f.batch*f.items, r.jobs, r.duration)
	return f
}

// produce submits until the pace has ended.
func (f *flow) produce(ctx context.Context) { f.produceWhile(ctx, ctx) }

// produceWhile starts no request once pacing has ended. Requests in flight go on until ctx ends.
func (f *flow) produceWhile(ctx, pacing context.Context) {
	r := f.run
	ended := f.pace.run(pacing, f.producers, r.rec.lag("generator_lag"), func() (sender, func()) {
		l := r.newLink()
		who := make([]wire.Caller, f.items)
		return func(n int64, intended time.Time) {
			if f.await(pacing); pacing.Err() != nil {
				return
			}
			for i := range who {
				who[i] = f.callers[(int(n)*f.items+i)%len(f.callers)]
			}
			f.submit(ctx, l, who, n, intended)
		}, l.Close
	})
	r.rec.tookAll(f.prefix+"submit", ended.unsent, time.Now())
	r.unsent += int64(len(ended.unsent))
}

// await blocks a closed-loop producer while it is more than lead jobs ahead of the consumers.
func (f *flow) await(ctx context.Context) {
	for f.lead > 0 && f.submitted.Load()-f.finished.Load() > f.lead && wait.For(ctx, leadPause) == nil {
	}
}

func (f *flow) submit(ctx context.Context, l *wire.Link, who []wire.Caller, n int64, intended time.Time) {
	r := f.run
	sent := time.Now()
	if f.pace.every == 0 {
		intended = sent // the wait for the lead is no latency
	}
	ask := wire.Submit{Jobs: f.batch, Batch: f.batch > 1, At: intended.Sub(r.begun)}
	if r.keyed {
		ask.Key = fmt.Sprintf("%s-%s%d", r.id, f.prefix, n)
	}
	accepted := l.Submit(ctx, who, ask)
	now := time.Now()
	if accepted > 0 {
		r.rec.took(f.prefix+"submit", now.Sub(intended))
		if f.pace.every > 0 {
			r.rec.took(f.prefix+"submit_from_sending", now.Sub(sent))
		}
	}
	f.submitted.Add(int64(accepted))
	r.rec.submitted.Add(int64(accepted))
	if f.pace.every == 0 && l.PauseFor > 0 {
		_ = wait.For(ctx, l.PauseFor) // closed-loop only: open-loop keeps its rate
	}
}

// consume claims and completes until the target is reached, or ctx ends. Claims that wait then are not aborted:
// their jobs would lose an attempt, and the server would take them back during the next measurement.
func (f *flow) consume(ctx context.Context) {
	var stopped atomic.Bool
	var group sync.WaitGroup
	for i := range f.consumers {
		group.Go(func() {
			l := f.run.newLink()
			defer l.Close()
			ask := wire.Claim{Worker: fmt.Sprintf("%s-%d", f.run.id, i), Queue: f.queue, Max: f.claimBatch, Wait: f.wait}
			for ctx.Err() == nil && !stopped.Load() {
				f.serve(ctx, l, ask)
			}
		})
	}
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	stopped.Store(true)
	group.Wait()
}

// serve is one claim and what follows from it.
func (f *flow) serve(ctx context.Context, l *wire.Link, ask wire.Claim) {
	r := f.run
	asked := time.Now()
	leases := l.Claim(ctx, &f.consumer, ask)
	now := time.Now()
	if len(leases) == 0 {
		_ = wait.For(ctx, l.PauseFor)
		return
	}
	r.rec.took(f.prefix+"claim", now.Sub(asked))
	since := make([]time.Time, 0, len(leases))
	for _, one := range leases {
		if !one.Intended.IsZero() && !one.Intended.Equal(r.begun) {
			since = append(since, one.Intended)
		}
	}
	r.rec.tookAll(f.prefix+"start", since, now)
	if f.work > 0 {
		_ = wait.For(ctx, f.work)
	}
	sent := time.Now()
	completed := l.Complete(ctx, &f.consumer, leases)
	now = time.Now()
	if completed > 0 {
		r.rec.took(f.prefix+"complete", now.Sub(sent))
		r.rec.tookAll(f.prefix+"end", since, now)
	}
	f.count(int64(completed), now)
}

func (f *flow) count(completed int64, now time.Time) {
	f.run.rec.finished.Add(completed)
	finished := f.finished.Add(completed)
	if f.slices != nil {
		f.slices.reached(finished, now)
	}
	if finished >= f.target.Load() {
		f.end(now)
	}
}

func (f *flow) end(now time.Time) {
	f.once.Do(func() {
		f.ended = now
		close(f.done)
	})
}

// all runs producers and consumers until all submitted jobs are finished. It returns the time from the first
// intended start to the last completion.
func (f *flow) all(ctx context.Context) time.Duration {
	begun := time.Now()
	// Jobs that are queued when the producers stop are finished, within a bound.
	ctx, stop := context.WithTimeout(ctx, f.pace.during+f.pace.grace+settleTime)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { f.consume(ctx) })
	f.produce(ctx)
	f.target.Store(f.submitted.Load())
	f.count(0, time.Now())
	select {
	case <-f.done:
	case <-ctx.Done():
		f.end(time.Now())
	}
	group.Wait()
	return f.ended.Sub(begun)
}

// steady runs producers and consumers until a number of jobs is finished. Producers run to the end: a last part
// without submits would be faster than the rest. The remaining jobs are finished afterwards, not measured.
func (f *flow) steady(ctx context.Context, jobs int) time.Duration {
	begun := time.Now()
	timed, stop := context.WithTimeout(ctx, f.pace.during+f.pace.grace)
	defer stop()
	pacing, enough := context.WithCancel(timed)
	defer enough()
	f.target.Store(int64(jobs))
	var group sync.WaitGroup
	group.Go(func() {
		f.consume(timed)
		enough()
	})
	f.produceWhile(timed, pacing)
	group.Wait()
	f.end(time.Now())
	f.run.finish(ctx, f)
	return f.ended.Sub(begun)
}

// finish completes the jobs that a flow has left. They are not measured.
func (r *run) finish(ctx context.Context, f *flow) {
	left := f.submitted.Load() - f.finished.Load()
	if left <= 0 {
		return
	}
	seen := r.rec
	defer func() {
		seen.finished.Add(r.rec.finished.Load())
		r.rec = seen
	}()
	r.rec = newRecorder()
	rest := r.newFlow()
	rest.target.Store(left)
	r.doing("finishing what is left", left, rest.finished.Load)
	ctx, stop := context.WithTimeout(ctx, settleTime)
	defer stop()
	rest.consume(ctx)
}

// settleTime is how long consumers may take to finish what is queued, beyond half
// of the duration: longer than a lease, because one may be lost with an answer.
const settleTime = 35 * time.Second

// fill queues jobs as fast as possible. They are not measured.
func (r *run) fill(ctx context.Context, n int, who []wire.Caller) (int64, error) {
	const senders, size = 4, 1000
	f := r.newFlow()
	f.batch, f.items, f.producers, f.callers = min(size, n), 1, senders, who
	f.pace = newPace(0, f.batch, n, maxDuration)
	f.prefix = "fill_"
	r.doing("filling", int64(n), f.submitted.Load)
	f.produce(ctx)
	if queued := f.submitted.Load(); queued < int64(n) {
		_, example := r.rec.failures()
		return queued, errors.Join(fmt.Errorf("only %d of %d jobs could be queued beforehand; %s", queued, n, example), context.Cause(ctx))
	}
	return f.submitted.Load(), nil
}
