package bucket

import (
	"math"
	"time"
)

// A token bucket (as GCRA: ITU-T I.371) of `burst` tokens that regains `rate` of them a
// second. What is stored is what was missing at the last decision, and when, so that an
// unused bucket needs neither a timer nor a row. GCRA's own state, the instant at which
// the bucket is full again, would be worth less tokens after the rate was lowered.
//
// limiter.lua does the same in Redis, on doubles, which are exact for integers
// below 2^53 = 9.007e15. A token is 10^9 ticks and a rate is counted in
// thousandths of a token a second, which is ticks a microsecond: no rate is
// rounded on the way. The bounds below keep every value that occurs exact:
//
//	size of a bucket          MaxBurst·10^9                  = 8.000e15 ticks
//	debt                      at most the size of the largest bucket it ever was
//	passed · rate             at most the debt, or the bucket is full
//	floor(debt / rate)        exact for any two integers below 2^53
//
// The sum of a debt and a cost may pass 2^53; it is never made: the cost is
// compared with what is left.
const (
	ticks = 1_000_000_000 // in one token
	milli = 1_000         // thousandths of a token a second in one token a second
	// MaxBurst is the largest burst of a bucket, in tokens.
	MaxBurst     = 8_000_000
	maxPerSecond = 1e9
	// maxWindow is how long the slowest bucket may take to fill: 31 years.
	maxWindow = 1_000_000_000_000_000 // µs
)

// Quota is the rate and the burst of a bucket, as the arithmetic has them. The
// zero value admits nothing.
type Quota struct {
	rate  int64 // thousandths of a token a second; ticks a microsecond
	burst int64 // tokens
}

// NewQuota takes a rate per second and a burst. Rates count to the thousandth,
// rounded, from 0.001 to 10^9. The burst is at most 8,000,000 and at most what
// fills within 31 years. A rate or burst of nothing, or less, admits nothing.
func NewQuota(perSecond float64, burst int64) Quota {
	if !(perSecond > 0) || burst < 1 { // written so that NaN is no rate either
		return Quota{}
	}
	rate := max(1, int64(math.Round(min(perSecond, maxPerSecond)*milli)))
	return Quota{rate: rate, burst: min(burst, MaxBurst, max(1, rate*(maxWindow/ticks)))}
}

// Closed says that it admits nothing, ever.
func (q Quota) Closed() bool { return q.rate <= 0 }

// Burst is the most that can be taken at once.
func (q Quota) Burst() int64 { return q.burst }

// PerSecond is the rate.
func (q Quota) PerSecond() float64 { return float64(q.rate) / milli }

// Window is how long an empty bucket takes to fill.
func (q Quota) Window() time.Duration { return q.wait(q.size()) }

// share is one part of n: the rate is divided, the burst stays whole, or a batch
// that the limit allows would be refused for ever.
func (q Quota) share(n int) Quota {
	if q.Closed() || n <= 1 {
		return q
	}
	return Quota{rate: max(1, q.rate/int64(n)), burst: q.burst}
}

func (q Quota) size() int64 { return q.burst * ticks }

// state is what is stored of a bucket: when it was written, in microseconds of some
// clock, what was owed then, in ticks, and the rate in force. The zero value is full.
type state struct{ at, debt, rate int64 }

// debt is what is missing from the full bucket, in ticks, and whether the state is stale:
// from before the clock was set back, or of another rate. When the rate changed is not
// known: since the state was written the lower of the two counts. It may be more than the
// size, if that has become smaller.
func (q Quota) debt(s state, now int64) (debt int64, stale bool) {
	if s.debt <= 0 {
		return 0, false
	}
	passed := now - s.at
	switch {
	case passed < 0:
		return s.debt, true
	case passed > s.debt/s.rate:
		return 0, false
	}
	return s.debt - passed*min(s.rate, q.rate), s.rate != q.rate
}

// after is the state of a bucket with a debt.
func (q Quota) after(debt, now int64) state { return state{at: now, debt: debt, rate: q.rate} }

// fits says whether a bucket with a debt, which may be more than its size, can give cost tokens. It can always give none.
func (q Quota) fits(debt, cost int64) bool { return cost == 0 || cost*ticks <= q.size()-debt }

// remaining is how many whole tokens a bucket with a debt has.
func (q Quota) remaining(debt int64) int64 { return max(0, q.size()-debt) / ticks }

// wait is how long it takes to regain a number of ticks, in whole microseconds,
// rounded up.
func (q Quota) wait(missing int64) time.Duration {
	if missing <= 0 || q.Closed() {
		return 0
	}
	µs := missing / q.rate
	if missing%q.rate > 0 {
		µs++
	}
	return time.Duration(µs) * time.Microsecond // at most a size of 8·10^15: no overflow
}

// charge is one bucket's part in a request.
type charge struct {
	quota Quota
	cost  int64
}

// chargeAll decides a request over all of its buckets: it gives each one's debt
// before the request, and whether all of them can pay. Unless it only peeks it
// brings the states up to date: all pay, or none does.
func chargeAll(charges []charge, states []state, now int64, peek bool) (debts []int64, pass bool) {
	debts, pass = make([]int64, len(charges)), true
	stale := make([]bool, len(charges))
	for i, c := range charges {
		debts[i], stale[i] = c.quota.debt(states[i], now)
		pass = pass && c.quota.fits(debts[i], c.cost)
	}
	if peek {
		return debts, pass
	}
	for i, c := range charges {
		var paid int64
		if pass {
			paid = c.cost * ticks
		}
		// A stale state is corrected by a refusal too: otherwise its bucket would regain
		// nothing until the clock reaches its former time, or go on by the former rate.
		if paid > 0 || stale[i] {
			states[i] = c.quota.after(debts[i]+paid, now)
		}
	}
	return debts, pass
}
