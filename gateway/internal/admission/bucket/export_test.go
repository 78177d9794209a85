package bucket

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/redisclient"
)

// What tests outside the package may see of it.

// Model is a bucket of the Go model.
type Model struct{ state state }

// Charge is one bucket's part in a request.
type Charge struct {
	Quota Quota
	Cost  int64
}

// Arguments are its three in ARGV.
func (c Charge) Arguments() []any { return []any{c.Quota.rate, c.Quota.burst, c.Cost} }

// ChargeAll decides by the model and, unless peeking, charges it.
func ChargeAll(charges []Charge, models []*Model, now int64, peek bool) (debts []int64, pass bool) {
	plain, states := make([]charge, len(charges)), make([]state, len(charges))
	for i, c := range charges {
		plain[i], states[i] = charge{c.Quota, c.Cost}, models[i].state
	}
	debts, pass = chargeAll(plain, states, now, peek)
	for i := range states {
		models[i].state = states[i]
	}
	return debts, pass
}

// Ticks is the size of a bucket.
func (q Quota) Ticks() int64 { return q.size() }

// Wait is how long a bucket with a debt takes until it has cost tokens.
func (q Quota) Wait(debt, cost int64) time.Duration { return q.wait(debt + cost*ticks - q.size()) }

// MilliRate is the rate in thousandths.
func (q Quota) MilliRate() int64 { return q.rate }

// Step is one call of the script, and its answer.
type Step struct {
	Keys    []string
	Args    []any
	Verdict Verdict
	Passed  int64
	Now     int64
	Debts   []int64
	Err     error
}

// RunScript runs steps in one pipeline.
func RunScript(ctx context.Context, client *redisclient.Client, source string, steps []Step) error {
	calls := make([]*scriptCall, len(steps))
	for i, s := range steps {
		calls[i] = newCall(s.Keys, s.Args)
	}
	err := run(ctx, client, redisclient.NewScript(source), calls)
	for i, c := range calls {
		steps[i].Verdict, steps[i].Passed, steps[i].Now, steps[i].Debts, steps[i].Err = c.verdict, c.passed, c.now, c.debts, c.Err
	}
	return err
}

// LimiterScript is what decides.
func LimiterScript() string { return limiterLua }

// LocalBuckets is how many buckets the limiter remembers in the process.
func (l *Limiter) LocalBuckets() int {
	l.local.mu.Lock()
	defer l.local.mu.Unlock()
	return l.local.buckets.Len()
}

// LocalLimiter decides as a Limiter without Redis, among n gateways.
func LocalLimiter(n int) *Limiter { return New(nil, Options{Replicas: n}) }

// RequestOf is a request of plain buckets, in one slot.
func RequestOf(tag string, charges ...Charge) Request {
	var r Request
	for i, c := range charges {
		r.Buckets = append(r.Buckets, Bucket{Policy: "p" + string(rune('0'+i)), Quota: c.Quota, Cost: c.Cost, Key: "{" + tag + "}:" + string(rune('0'+i))})
	}
	return r
}

// ScriptSHA is the script's name in Redis.
func ScriptSHA() string { return redisclient.NewScript(limiterLua).SHA() }

// Arguments are a request's KEYS and ARGV.
func (r *Request) Arguments(prefix string) (keys []string, args []any) {
	return r.arguments(prefix, false, 1)
}
