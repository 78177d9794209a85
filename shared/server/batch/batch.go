package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrFull says that the queue is full, or that the request's turn came too late;
	// nothing was done.
	ErrFull = errors.New("batch: too many requests wait")
	// ErrLeft says that the caller stopped waiting before its request was flushed; nothing
	// was done.
	ErrLeft = errors.New("batch: the caller left before its request was flushed")
	// ErrUnknown says that the caller stopped waiting while its request was being flushed;
	// whether it took effect is not known.
	ErrUnknown = errors.New("batch: the caller left while its request was flushed")
)

// Result is the result of one request.
type Result[Resp any] struct {
	Value Resp
	Err   error
}

// Options say what a Batcher does.
type Options[Req, Resp any] struct {
	// Flush answers requests, each in its place: as many results as requests. Its
	// context is bounded by Timeout, outlives the callers, and has no values of theirs.
	Flush func(ctx context.Context, requests []Req) []Result[Resp]
	// MaxWeight bounds a flush by the sum of its requests' weights; a request that is
	// heavier goes alone.
	MaxWeight int
	// MaxRequests bounds a flush by their number; 0 is no bound other than MaxWeight.
	MaxRequests int
	// Weight of a request; 1 each if nil.
	Weight func(Req) int
	// Owner, where set, is whose request it is: owners take turns by weight.
	// Nil is the order of arrival. Not with MaxWait.
	Owner func(Req) any
	// Capacity bounds the requests that wait for a flush. See Queue for which one is
	// refused when it is full.
	Capacity int
	// Reserve is how much of its caller's time, in percent, the first request in the queue
	// must have left when its turn comes, otherwise it is refused; 0 is nothing. Under a
	// lasting overload the first one has waited nearly until the deadline: without a
	// reserve all the work is done for callers who leave before it is.
	Reserve int
	// MaxWait, where not 0, is for how long the first request may have waited when another
	// comes for which the next flush has no room: after that the new one is refused at
	// once, since it would wait for longer still. So under a lasting overload a refused
	// caller knows early, and the others have waited little longer than this.
	MaxWait time.Duration
	// CallTimeout, where not 0, is how long a call of Do or DoAll waits for its results.
	// After that it is as if the caller's context had ended. It costs less than a context.
	CallTimeout time.Duration
	// Timeout bounds a flush; 30 s if 0.
	Timeout time.Duration
	// Yield lets other goroutines run before each flush, so that those that are about to
	// call join it: under load flushes are larger, and fewer. It pays for flushes that are
	// as short as a round trip to Redis.
	Yield bool
}

// Batcher makes flushes of requests. It is safe for concurrent use, and has a goroutine
// only while there is something to flush.
type Batcher[Req, Resp any] struct {
	options Options[Req, Resp]

	mu       sync.Mutex
	waiting  Queue[any, call[Req, Resp]]
	flushing bool
}

// call is one request and its caller.
type call[Req, Resp any] struct {
	request Req
	weight  int
	result  chan Result[Resp] // holds one; sent once
	// came is when it was queued; zero without MaxWait.
	came time.Time
	// latest, where not zero, is when its turn must have come.
	latest time.Time
	// flushed, guarded by the Batcher's mu, says that it no longer waits.
	flushed bool
}

type item[Req, Resp any] = Item[any, call[Req, Resp]]

// New makes a Batcher.
func New[Req, Resp any](o Options[Req, Resp]) *Batcher[Req, Resp] {
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Weight == nil {
		o.Weight = func(Req) int { return 1 }
	}
	return &Batcher[Req, Resp]{options: o, waiting: Queue[any, call[Req, Resp]]{Capacity: o.Capacity}}
}

// Do joins the next flush and returns the request's own result. A caller whose
// context ends leaves without disturbing the others.
func (b *Batcher[Req, Resp]) Do(ctx context.Context, request Req) (Resp, error) {
	timer, expired := b.expiry()
	if timer != nil {
		defer timer.Stop()
	}
	came, latest := b.times(ctx)
	one := b.item(request, came, latest)
	b.join(one)
	result, gone := b.await(ctx, expired, one)
	if gone != nil {
		result = b.leave(one, gone)
	}
	return result.Value, result.Err
}

// DoAll joins with several requests at once and returns a result for each. They may
// be in different flushes.
func (b *Batcher[Req, Resp]) DoAll(ctx context.Context, requests []Req) []Result[Resp] {
	timer, expired := b.expiry()
	if timer != nil {
		defer timer.Stop()
	}
	results := make([]Result[Resp], len(requests))
	items := make([]*item[Req, Resp], len(requests))
	came, latest := b.times(ctx)
	for i, request := range requests {
		items[i] = b.item(request, came, latest)
	}
	b.join(items...)
	var gone error // why the caller no longer waits
	for i, one := range items {
		if gone == nil {
			results[i], gone = b.await(ctx, expired, one)
		}
		if gone != nil {
			results[i] = b.leave(one, gone)
		}
	}
	return results
}

// expiry gives a timer that ends the wait of a call after CallTimeout, and its channel;
// both are nil where nothing does.
func (b *Batcher[Req, Resp]) expiry() (timer *time.Timer, expired <-chan time.Time) {
	if b.options.CallTimeout <= 0 {
		return nil, nil
	}
	timer = time.NewTimer(b.options.CallTimeout)
	return timer, timer.C
}

// times gives a request's times as far as the options need them, see call.
func (b *Batcher[Req, Resp]) times(ctx context.Context) (came, latest time.Time) {
	if b.options.MaxWait > 0 {
		came = time.Now()
	}
	if deadline, bound := ctx.Deadline(); bound && b.options.Reserve > 0 {
		latest = deadline.Add(-time.Until(deadline) * time.Duration(b.options.Reserve) / 100)
	}
	return came, latest
}

func (b *Batcher[Req, Resp]) item(request Req, came, latest time.Time) *item[Req, Resp] {
	one := &item[Req, Resp]{Value: call[Req, Resp]{
		request: request, weight: b.options.Weight(request), result: make(chan Result[Resp], 1), came: came, latest: latest,
	}}
	if b.options.Owner != nil {
		one.Owner, one.Weight = b.options.Owner(request), max(one.Value.weight, 1)
	}
	return one
}

// join queues the items, and starts to flush if that is not under way.
func (b *Batcher[Req, Resp]) join(items ...*item[Req, Resp]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	late := b.late()
	for _, one := range items {
		if late {
			refuse(one, ErrFull)
			continue
		}
		displaced, ok := b.waiting.Push(one)
		if !ok {
			refuse(one, ErrFull)
		}
		if displaced != nil {
			refuse(displaced, ErrFull)
		}
	}
	if !b.flushing && b.waiting.Len() > 0 {
		b.flushing = true
		// It flushes for all callers, maybe for hours: with a caller's context it would
		// keep that caller's values, a request's body among them, for as long.
		go b.run(context.Background()) //nolint:forbidigo // no caller's
	}
}

// refuse answers a request that is not flushed. It is called with the lock held.
func refuse[Req, Resp any](one *item[Req, Resp], err error) {
	one.Value.flushed = true
	one.Value.result <- Result[Resp]{Err: err}
}

// await waits for the result of a request that has joined. gone is why the caller
// stopped waiting before it came.
func (b *Batcher[Req, Resp]) await(ctx context.Context, expired <-chan time.Time, one *item[Req, Resp]) (result Result[Resp], gone error) {
	select {
	case result = <-one.Value.result:
		return result, nil
	case <-ctx.Done():
		return result, context.Cause(ctx)
	case <-expired:
		return result, context.DeadlineExceeded
	}
}

// leave takes out a request whose caller stopped waiting.
func (b *Batcher[Req, Resp]) leave(one *item[Req, Resp], gone error) Result[Resp] {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case result := <-one.Value.result: // it came at the same moment
		return result
	default:
	}
	if one.Value.flushed {
		return Result[Resp]{Err: fmt.Errorf("%w: %w", ErrUnknown, gone)}
	}
	b.waiting.Remove(one)
	return Result[Resp]{Err: fmt.Errorf("%w: %w", ErrLeft, gone)}
}

// late says that the first in the queue has waited for too long, and that the queue fills
// a flush. It is called with the lock held.
func (b *Batcher[Req, Resp]) late() bool {
	if b.options.MaxWait <= 0 {
		return false
	}
	first := b.waiting.First()
	if first == nil || time.Since(first.Value.came) <= b.options.MaxWait {
		return false
	}
	weight, requests := 0, 0
	for one := range b.waiting.All() {
		weight += one.Value.weight
		requests++
		if weight >= b.options.MaxWeight || requests == b.options.MaxRequests {
			return true
		}
	}
	return false // the next flush takes all of them, and one more
}

// Late says that a request would be refused now because others have waited for longer
// than MaxWait: it need not be made at all.
func (b *Batcher[Req, Resp]) Late() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.late()
}

// RejectWaiting answers all requests that wait with an error. Those that are being
// flushed are not affected.
func (b *Batcher[Req, Resp]) RejectWaiting(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.waiting.Len() > 0 {
		refuse(b.waiting.Pop(), err)
	}
	b.waiting.Forget()
}

// Waiting is how many requests wait, for a metric.
func (b *Batcher[Req, Resp]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting.Len()
}
