package admission

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A flush takes this many requests at most, and this many keys, unless a single
// request has more: a batch for a thousand users has two thousand, 5 to 12 ms of
// Redis. More would keep Redis from everybody else for too long at a stretch, and
// could look like a freeze.
const (
	largestFlush = 256
	flushKeys    = 2048
)

// waiter is one request's place in a round.
type waiter struct {
	request *Request
	peek    bool
	ctx     context.Context
	left    atomic.Bool  // decided locally: not sent any more, its answer is not read
	done    chan *answer // nil: no answer
}

// answer is what Redis says to one request.
type answer struct {
	verdict Verdict
	hint    string
	debts   []int64 // before the request
}

// ask has Redis decide: the requests that arrive while a flush is under way are
// the next one. It gives nil where Redis gave no answer within the budget, and
// then none will be taken: if it was charged all the same, that is a token lost
// by the caller, never one won.
func (l *Limiter) ask(ctx context.Context, r *Request, peek bool) *answer {
	w := &waiter{request: r, peek: peek, ctx: ctx, done: make(chan *answer, 1)}
	budget := time.NewTimer(l.budget)
	defer budget.Stop()
	l.join(w)
	select {
	case answer := <-w.done:
		return answer
	case <-budget.C:
	case <-ctx.Done():
	}
	w.left.Store(true)
	return nil
}

func (l *Limiter) join(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, w)
	if !l.busy {
		l.busy = true
		go l.serve() // ends as soon as nobody waits
	}
}

// serve flushes until nobody waits. One flush at a time: what a frozen Redis can
// hold up is one connection.
func (l *Limiter) serve() {
	for {
		// Whoever is about to ask may join: at an idle gateway nobody is, and under load
		// rounds are larger, and fewer.
		runtime.Gosched()
		batch := l.next()
		if batch == nil {
			return
		}
		if len(batch) > 0 {
			l.flush(batch)
		}
	}
}

// next takes those that wait, without those that have left; nil ends the round.
func (l *Limiter) next() []*waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.busy = false
		return nil
	}
	batch := make([]*waiter, 0, min(len(l.waiting), largestFlush))
	taken, keys := 0, 0
	for _, w := range l.waiting {
		size := len(w.request.hints) + len(w.request.Buckets)
		keys += size
		if len(batch) == largestFlush || (keys > flushKeys && len(batch) > 0) {
			break
		}
		taken++
		if w.left.Load() {
			keys -= size
			continue
		}
		batch = append(batch, w)
	}
	l.waiting = l.waiting[taken:]
	if len(l.waiting) == 0 {
		l.waiting = nil
	}
	return batch
}

// flush has one batch decided.
func (l *Limiter) flush(batch []*waiter) {
	if !l.reachable() { // since they joined
		release(batch)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.spanned(batch)), l.budget)
	defer cancel()
	// The client may need longer than its context to give up, as in dialling.
	late := time.AfterFunc(l.budget, func() { l.suspect(batch) })
	groups := alike(batch)
	calls := make([]*scriptCall, len(groups))
	for i, same := range groups {
		calls[i] = same.call(l.prefix)
	}
	_, err := l.breaker.Execute(func() (struct{}, error) {
		return struct{}{}, l.script.run(ctx, l.client, calls)
	})
	if err != nil {
		l.suspect(nil)
	}
	if !late.Stop() && err == nil {
		l.doubt.Store(false) // late, but it answers
	}
	for i, same := range groups {
		same.answer(calls[i])
	}
}

// group are requests of one flush that are equal: one call decides them all, one
// after the other. A tenant's busy producer sends little else, and a call costs
// Redis as much for a hundred as for one.
type group []*waiter

// alike puts equal requests together, in the order of the first of each.
func alike(batch []*waiter) []group {
	var groups []group
	byKey := map[string][]int{} // places in groups, by the request's first bucket
	for _, w := range batch {
		first := ""
		if len(w.request.Buckets) > 0 {
			first = w.request.Buckets[0].key
		}
		at := slices.IndexFunc(byKey[first], func(place int) bool {
			other := groups[place][0]
			return other.peek == w.peek && other.request.equal(w.request)
		})
		if at >= 0 {
			place := byKey[first][at]
			groups[place] = append(groups[place], w)
			continue
		}
		byKey[first] = append(byKey[first], len(groups))
		groups = append(groups, group{w})
	}
	return groups
}

func (g group) call(prefix string) *scriptCall {
	times := len(g)
	if g[0].peek {
		times = 1 // it changes nothing: all see the same
	}
	keys, args := g[0].request.arguments(prefix, g[0].peek, times)
	return &scriptCall{keys: keys, args: args}
}

// answer deals a call's answer out: as many as passed have passed one after the
// other, and those behind them have found what these left.
func (g group) answer(call *scriptCall) {
	for i, w := range g {
		if call.err != nil || call.now == 0 { // 0: the breaker did not let it through
			w.answer(nil)
			continue
		}
		own := &answer{verdict: call.verdict, hint: call.hint, debts: slices.Clone(call.debts)}
		if int64(i) < call.passed {
			own.verdict = Admitted
		}
		if !w.peek && len(own.debts) == len(w.request.Buckets) {
			for j := range own.debts {
				own.debts[j] += min(int64(i), call.passed) * w.request.Buckets[j].Cost * ticks
			}
		}
		w.answer(own)
	}
}

// answer gives a waiter its answer, or nil for none. Only the first counts: what
// arrives later is not read by anybody.
func (w *waiter) answer(own *answer) {
	select {
	case w.done <- own:
	default:
	}
}

// suspect puts Redis in doubt: those that wait for it, and all that come until a
// probe has succeeded, are decided locally.
func (l *Limiter) suspect(batch []*waiter) {
	l.doubt.Store(true)
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	release(waiting)
	release(batch)
}

// release has waiters decided locally.
func release(batch []*waiter) {
	for _, w := range batch {
		w.left.Store(true)
		w.answer(nil)
	}
}

// reachable says whether Redis is believed to answer.
func (l *Limiter) reachable() bool {
	return l.client != nil && !l.doubt.Load() && l.breaker.State() == gobreaker.StateClosed
}

// inOrder is reachable, and where it is not, sees to it that a probe is made.
func (l *Limiter) inOrder(ctx context.Context) bool {
	if l.client == nil {
		return false
	}
	if l.reachable() {
		return true
	}
	l.probe(ctx)
	return false
}

// probe asks, beside the requests and one at a time, for what the limiter needs:
// the script, and room to write. The breaker says when.
func (l *Limiter) probe(ctx context.Context) {
	if l.breaker.State() == gobreaker.StateOpen || !l.probing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer l.probing.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.budget)
		defer cancel()
		_, err := l.breaker.Execute(func() (struct{}, error) {
			return struct{}{}, l.script.run(ctx, l.client, []*scriptCall{l.trial()})
		})
		if err == nil {
			l.doubt.Store(false)
		}
	}()
}

// trial charges a bucket that is this gateway's own, so that it writes.
func (l *Limiter) trial() *scriptCall {
	return &scriptCall{
		keys: []string{l.prefix + "{gateway-" + l.id + "}:probe"},
		args: []any{"charge", 0, 1, int64(milli), int64(1_000_000), int64(1)},
	}
}
