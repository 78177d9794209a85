package batch

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// run flushes until no request waits.
func (b *Batcher[Req, Resp]) run(ctx context.Context) {
	var items []*item[Req, Resp]
	for {
		if b.options.Yield {
			runtime.Gosched()
		}
		if items = b.next(items); len(items) == 0 {
			return
		}
		b.flush(ctx, items)
		clear(items)
	}
}

// next takes the requests of the next flush: in order, as many as fit. If there are none
// it ends the flushing. It returns them in the array of a slice that is no longer used.
func (b *Batcher[Req, Resp]) next(items []*item[Req, Resp]) []*item[Req, Resp] {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuseLate()
	items = items[:0]
	weight := 0
	for first := b.waiting.First(); first != nil && b.fits(first, len(items), weight); first = b.waiting.First() {
		b.waiting.Pop()
		first.Value.flushed = true
		weight += first.Value.weight
		items = append(items, first)
	}
	if b.flushing = len(items) > 0; !b.flushing {
		b.waiting.Forget()
	}
	return items
}

// fits says that another request has room in a flush of so many requests and so much weight.
func (b *Batcher[Req, Resp]) fits(one *item[Req, Resp], requests, weight int) bool {
	if requests == 0 {
		return true
	}
	if b.options.MaxRequests > 0 && requests >= b.options.MaxRequests {
		return false
	}
	return weight+one.Value.weight <= b.options.MaxWeight
}

// refuseLate refuses the first ones in the queue as long as their turn comes too late. It
// is called with the lock held.
func (b *Batcher[Req, Resp]) refuseLate() {
	if b.options.Reserve <= 0 || b.waiting.Len() == 0 {
		return
	}
	now := time.Now()
	for first := b.waiting.First(); first != nil; first = b.waiting.First() {
		if first.Value.latest.IsZero() || !first.Value.latest.Before(now) {
			return
		}
		b.waiting.Remove(first)
		refuse(first, fmt.Errorf("%w: the turn came too late", ErrFull))
	}
}

// flush runs the function and sends each caller its result. If it panics, or returns too
// few results, the requests of this flush fail, and no others.
func (b *Batcher[Req, Resp]) flush(ctx context.Context, items []*item[Req, Resp]) {
	requests := make([]Req, len(items))
	for i, one := range items {
		requests[i] = one.Value.request
	}
	results, err := b.call(ctx, requests)
	for i, one := range items {
		switch {
		case err != nil:
			one.Value.result <- Result[Resp]{Err: err}
		case i < len(results):
			one.Value.result <- results[i]
		default:
			one.Value.result <- Result[Resp]{Err: fmt.Errorf("batch: %d results for %d requests", len(results), len(requests))}
		}
	}
}

func (b *Batcher[Req, Resp]) call(ctx context.Context, requests []Req) (results []Result[Resp], err error) {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	defer func() {
		if failure := recover(); failure != nil {
			err = fmt.Errorf("%w: the flush panicked: %v", ErrUnknown, failure)
		}
	}()
	return b.options.Flush(ctx, requests), nil
}
