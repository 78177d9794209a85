package bucket

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/shared/server/batch"
)

const (
	// largestFlush and flushKeys bound a flush by requests and by keys, unless a single
	// request has more: a batch for a thousand users has two thousand, 5 to 12 ms of
	// Redis. More would block Redis for all other clients for too long at a time, and
	// could look like a freeze.
	largestFlush = 256
	flushKeys    = 2048
	// waitingQuestions bounds the requests that wait for a flush: more than a gateway can
	// have within its budget. One more is decided locally.
	waitingQuestions = 1 << 16
)

// question is a request that Redis decides.
type question struct {
	request *Request
	peek    bool
	span    trace.Span // of the request, nil where the limiter's calls make none
}

// answer is what Redis says to one request.
type answer struct {
	verdict Verdict
	hint    string
	debts   []int64 // before the request
}

type answerResult = batch.Result[*answer]

// newBatcher makes the flushes of the limiter: one at a time, so that a frozen Redis
// blocks one connection only.
func (l *Limiter) newBatcher() *batch.Batcher[question, *answer] {
	return batch.New(batch.Options[question, *answer]{
		Flush: l.flush, Timeout: l.budget, CallTimeout: l.budget, Capacity: waitingQuestions,
		MaxRequests: largestFlush, MaxWeight: flushKeys,
		Weight: func(q question) int { return len(q.request.Hints) + len(q.request.Buckets) },
		Yield:  true,
	})
}

// ask has Redis decide. It returns nil if Redis gave no answer within the budget; a
// later answer is not used: if the request was charged, the caller loses a token, and
// never gains one.
func (l *Limiter) ask(ctx context.Context, r *Request, peek bool) *answer {
	q := question{request: r, peek: peek}
	if l.traced {
		q.span = trace.SpanFromContext(ctx)
	}
	own, err := l.batcher.Do(ctx, q)
	if err != nil {
		return nil
	}
	return own
}

// flush has the questions of one flush decided. The value of a result is nil where there
// is no answer.
func (l *Limiter) flush(ctx context.Context, questions []question) []answerResult {
	results := make([]answerResult, len(questions))
	if !l.Reachable() { // since they joined
		return results
	}
	ctx = l.spanned(ctx, questions)
	// The client may need longer than its context to give up, as in dialling.
	late := time.AfterFunc(l.budget, func() { l.markDegraded(ctx) })
	groups := groupEqual(questions)
	calls := make([]*scriptCall, len(groups))
	for i := range groups {
		calls[i] = groups[i].call(l.prefix)
	}
	_, err := l.breaker.Execute(func() (struct{}, error) {
		return struct{}{}, run(ctx, l.client, l.script, calls)
	})
	if err != nil {
		l.markDegraded(ctx)
	}
	if !late.Stop() && err == nil {
		l.degraded.Store(false) // late, but it answers
	}
	for i := range groups {
		groups[i].answer(calls[i], results)
	}
	return results
}

// group are equal questions of one flush: one call decides them all, one after the
// other. Most requests of a busy producer are equal, and a call costs Redis as much
// for a hundred as for one.
type group struct {
	question
	places []int // in the flush
}

// groupEqual puts equal questions together, in the order of the first of each.
func groupEqual(questions []question) []group {
	var groups []group
	byKey := map[string][]int{} // places in groups, by the request's first bucket
	for i, q := range questions {
		first := ""
		if len(q.request.Buckets) > 0 {
			first = q.request.Buckets[0].Key
		}
		at := slices.IndexFunc(byKey[first], func(place int) bool {
			return groups[place].peek == q.peek && groups[place].request.equal(q.request)
		})
		if at >= 0 {
			same := &groups[byKey[first][at]]
			same.places = append(same.places, i)
			continue
		}
		byKey[first] = append(byKey[first], len(groups))
		groups = append(groups, group{q, []int{i}})
	}
	return groups
}

func (g *group) call(prefix string) *scriptCall {
	times := len(g.places)
	if g.peek {
		times = 1 // it changes nothing: all see the same
	}
	keys, args := g.request.arguments(prefix, g.peek, times)
	return newCall(keys, args)
}

// answer turns a call's answer into the results of its questions: as many as passed have
// passed one after the other, and those behind them have found what these left.
func (g *group) answer(call *scriptCall, results []answerResult) {
	if call.Err != nil || call.now == 0 { // 0: the breaker did not let it through
		return
	}
	for i, place := range g.places {
		own := &answer{verdict: call.verdict, hint: call.hint, debts: slices.Clone(call.debts)}
		if int64(i) < call.passed {
			own.verdict = Admitted
		}
		if !g.peek && len(own.debts) == len(g.request.Buckets) {
			for j := range own.debts {
				own.debts[j] += min(int64(i), call.passed) * g.request.Buckets[j].Cost * ticks
			}
		}
		results[place].Value = own
	}
}

// spanned gives the context of a flush the span of the first of its requests whose spans
// are recorded: one call is made for all of them, and a span has one parent.
func (l *Limiter) spanned(ctx context.Context, questions []question) context.Context {
	if l.traced {
		for _, q := range questions {
			if q.span.IsRecording() {
				return trace.ContextWithSpan(ctx, q.span)
			}
		}
	}
	return ctx
}
