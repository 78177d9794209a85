package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/shared/wait"
)

// pace says when requests are meant to start, and bounds them in number and time.
type pace struct {
	// every is the time from one intended start to the next; 0 is closed-loop: a
	// request is meant to start when a sender is free for it.
	every time.Duration
	// total is how many requests there are at most; 0 means as many as fit the time.
	total int64
	// during is how long requests may be meant to start.
	during time.Duration
	// grace is how long after that what is late may still be sent.
	grace time.Duration
}

// newPace makes the pace of so many jobs a second in batches; rate 0 is closed-loop,
// jobs 0 unbounded in number.
func newPace(rate float64, batch, jobs int, during time.Duration) pace {
	p := pace{during: during, grace: during/2 + time.Second}
	if jobs > 0 {
		p.total = int64((jobs + batch - 1) / batch)
	}
	if rate > 0 {
		p.every = max(time.Duration(float64(batch)/rate*float64(time.Second)), 1)
		fits := int64((during + p.every - 1) / p.every)
		if p.total == 0 || fits < p.total {
			p.total = fits
		}
	}
	return p
}

// sender sends request n with its intended start.
type sender func(n int64, intended time.Time)

// pacing is the result of a pace.
type pacing struct {
	// unsent are the intended starts of requests for which no sender was free in time.
	unsent []time.Time
	// lag is called with how late the generator itself woke up for a request.
	lag func(time.Duration)
}

// run runs senders until the pace has ended. Each takes the next intended start and waits for it. When all are
// busy, requests start late, and the delay is part of their latency. makeSender is called once for each sender.
func (p pace) run(ctx context.Context, senders int, lag func(time.Duration), makeSender func() (sender, func())) pacing {
	var next atomic.Int64
	var group sync.WaitGroup
	begun := time.Now()
	for range senders {
		group.Go(func() {
			do, end := makeSender()
			defer end()
			for {
				n := next.Add(1) - 1
				if p.total > 0 && n >= p.total {
					return
				}
				intended, ok := p.await(ctx, begun, n, lag)
				if !ok {
					next.Add(-1) // not sent after all
					return
				}
				do(n, intended)
			}
		})
	}
	group.Wait()
	ended := pacing{lag: lag}
	if p.every == 0 || ctx.Err() != nil {
		return ended
	}
	for n := next.Load(); n < p.total; n++ {
		ended.unsent = append(ended.unsent, begun.Add(time.Duration(n)*p.every))
	}
	return ended
}

// await waits for the intended start of request n; false if it must not be sent.
func (p pace) await(ctx context.Context, begun time.Time, n int64, lag func(time.Duration)) (time.Time, bool) {
	now := time.Now()
	if ctx.Err() != nil {
		return now, false
	}
	if p.every == 0 {
		return now, now.Sub(begun) < p.during
	}
	intended := begun.Add(time.Duration(n) * p.every)
	if now.Sub(begun) > p.during+p.grace {
		return intended, false
	}
	early := intended.Sub(now)
	if early <= 0 {
		return intended, true
	}
	if wait.For(ctx, early) != nil {
		return intended, false
	}
	if lag != nil {
		lag(time.Since(intended))
	}
	return intended, true
}
