package bucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
)

// quotas draws buckets from the slowest to the fastest there are, near the
// bounds of the arithmetic too.
func quotas() *rapid.Generator[bucket.Quota] {
	return rapid.Custom(func(t *rapid.T) bucket.Quota {
		rate := rapid.OneOf(
			rapid.SampledFrom([]float64{0.001, 0.2, 1, 3, 5, 7.777, 1000, 333_333.333, 1_000_000, 1e9}),
			rapid.Float64Range(0.001, 100),
			rapid.Float64Range(100, 1e7),
		).Draw(t, "rate")
		burst := rapid.OneOf(
			rapid.Int64Range(1, 20), rapid.Int64Range(1, 100_000), rapid.SampledFrom([]int64{1, 7_999_999, 8_000_000, math.MaxInt64}),
		).Draw(t, "burst")
		return bucket.NewQuota(rate, burst)
	})
}

func TestQuotaBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate      float64
		burst     int64
		wantRate  float64
		wantBurst int64
		closed    bool
	}{
		{5, 10, 5, 10, false},
		{0.2, 1, 0.2, 1, false},
		{1_000_000, 1_000_000, 1_000_000, 1_000_000, false},
		{0.0001, 1, 0.001, 1, false},
		{1e300, math.MaxInt64, 1e9, 8_000_000, false},
		{0.001, math.MaxInt64, 0.001, 1_000_000, false},
		{0, 10, 0, 0, true},
		{-1, 10, 0, 0, true},
		{math.NaN(), 10, 0, 0, true},
		{5, 0, 0, 0, true},
	} {
		q := bucket.NewQuota(c.rate, c.burst)
		if q.PerSecond() != c.wantRate || q.Burst() != c.wantBurst || q.Closed() != c.closed {
			t.Errorf("NewQuota(%v, %d) is %v a second, burst %d, closed %v", c.rate, c.burst, q.PerSecond(), q.Burst(), q.Closed())
		}
	}
}

// Every value that the arithmetic makes is one that a double has exactly.
func TestArithmeticStaysBelow2To53(t *testing.T) {
	t.Parallel()
	const exact = 1 << 53
	year2100 := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	rapid.Check(t, func(t *rapid.T) {
		q := quotas().Draw(t, "quota")
		if largest := q.Ticks() + q.MilliRate(); largest >= exact {
			t.Fatalf("a debt may come to %d", largest)
		}
		if full := year2100 + q.Ticks()/q.MilliRate() + 1; full >= exact {
			t.Fatalf("a bucket may be full at %d", full)
		}
	})
}

type admittance struct{ at, cost int64 }

// In every window: admitted ≤ burst + rate·Δt. And every refusal tells the truth:
// its wait, and not a microsecond less, is enough.
func TestModelKeepsTheRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := bucket.NewQuota(
			rapid.OneOf(rapid.SampledFrom([]float64{0.2, 5, 1_000_000}), rapid.Float64Range(0.001, 1e6)).Draw(t, "rate"),
			rapid.Int64Range(1, 50).Draw(t, "burst"))
		now, model, granted := int64(1_800_000_000_000_000), &bucket.Model{}, []admittance(nil)
		full := q.Window().Microseconds()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, full/q.Burst()+2), rapid.Int64Range(0, full)).Draw(t, "passes")
			cost := rapid.Int64Range(1, q.Burst()).Draw(t, "cost")
			charges := []bucket.Charge{{Quota: q, Cost: cost}}
			debts, pass := bucket.ChargeAll(charges, []*bucket.Model{model}, now, false)
			if pass {
				granted = append(granted, admittance{now, cost})
				continue
			}
			wait := q.Wait(debts[0], cost).Microseconds()
			if after, _ := bucket.ChargeAll(charges, []*bucket.Model{model}, now, true); after[0] != debts[0] {
				t.Fatal("a refusal charged something")
			}
			if _, pass := bucket.ChargeAll(charges, []*bucket.Model{model}, now+wait, true); !pass {
				t.Fatalf("refused after its wait of %d µs", wait)
			}
			if _, pass := bucket.ChargeAll(charges, []*bucket.Model{model}, now+wait-1, true); pass {
				t.Fatalf("admitted before its wait of %d µs", wait)
			}
		}
		for i := range granted {
			var sum int64
			for _, g := range granted[i:] {
				sum += g.cost
				allowed := float64(q.Burst()) + q.PerSecond()*float64(g.at-granted[i].at)/1e6
				if float64(sum) > allowed+1e-6 {
					t.Fatalf("%d admitted in %d µs, %v allowed", sum, g.at-granted[i].at, allowed)
				}
			}
		}
	})
}

// Through any change of rate and burst: admitted ≤ the largest burst + the rate, by the time that each was in force. What is
// owed is owed in tokens, and so a lower rate gives nothing back.
func TestModelKeepsTheRateThroughChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func() bucket.Quota {
			return bucket.NewQuota(rapid.OneOf(rapid.SampledFrom([]float64{0.2, 1, 10, 1000}), rapid.Float64Range(0.001, 1e4)).Draw(t, "rate"),
				rapid.Int64Range(1, 200).Draw(t, "burst"))
		}
		q, now, model := draw(), int64(1_800_000_000_000_000), &bucket.Model{}
		var spent, regained float64
		largest := q.Burst()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			passes := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1_000_000), rapid.Int64Range(0, q.Window().Microseconds())).Draw(t, "passes")
			now += passes
			regained += q.PerSecond() * float64(passes) / 1e6
			if rapid.IntRange(0, 4).Draw(t, "change") == 0 {
				q = draw()
				largest = max(largest, q.Burst())
			}
			cost := rapid.Int64Range(1, q.Burst()).Draw(t, "cost")
			if _, pass := bucket.ChargeAll([]bucket.Charge{{Quota: q, Cost: cost}}, []*bucket.Model{model}, now, false); pass {
				spent += float64(cost)
			}
			if spent > float64(largest)+regained+1e-6 {
				t.Fatalf("%v admitted, the largest burst was %d and %v were regained", spent, largest, regained)
			}
		}
	})
}

// A lowered rate, in Redis and by the fallback: an emptied bucket of 100 has no more than before.
func TestLoweredRateGivesNothingBack(t *testing.T) {
	t.Parallel()
	inRedis := bucket.New(dial(t, storetest.Redis(t), hang), bucket.Options{Budget: hang})
	for name, l := range map[string]*bucket.Limiter{"in Redis": inRedis, "local": bucket.LocalLimiter(1)} {
		tag := uuid.NewString()
		for i, rate := range []float64{10, 1, 0.1, 0.01} {
			passed := 0
			for range 150 {
				d := l.Admit(t.Context(), bucket.RequestOf(tag, bucket.Charge{Quota: bucket.NewQuota(rate, 100), Cost: 1}))
				if d.Local == (name == "in Redis") {
					t.Fatalf("decided elsewhere: %+v", d)
				}
				if d.Verdict == bucket.Admitted {
					passed++
				}
			}
			// What a slow machine may regain at 10 a second while it asks: a minute.
			if i > 0 && passed > 60 {
				t.Errorf("%s: %d pass after the rate was lowered to %v", name, passed, rate)
			}
		}
	}
}

// A clock that is set back empties a bucket at worst, and gives nothing away: by
// its own time nobody gets more, and nobody waits longer than a window.
func TestModelBearsAClockThatGoesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := bucket.NewQuota(rapid.Float64Range(0.01, 1e6).Draw(t, "rate"), rapid.Int64Range(1, 1000).Draw(t, "burst"))
		now, model := int64(1_800_000_000_000_000), &bucket.Model{}
		models := []*bucket.Model{model}
		var earned, spent float64 // tokens
		earned = float64(q.Burst())
		for range 40 {
			step := rapid.Int64Range(-3_600_000_000, 3_600_000).Draw(t, "step")
			now += step
			earned += q.PerSecond() * float64(max(0, step)) / 1e6
			cost := rapid.Int64Range(1, q.Burst()).Draw(t, "cost")
			charges := []bucket.Charge{{Quota: q, Cost: cost}}
			debts, pass := bucket.ChargeAll(charges, models, now, false)
			if debts[0] < 0 || debts[0] > q.Ticks() {
				t.Fatalf("a debt of %d in a bucket of %d", debts[0], q.Ticks())
			}
			if pass {
				spent += float64(cost)
			}
			if spent > earned+1e-6 {
				t.Fatalf("%v admitted, %v earned", spent, earned)
			}
			if _, pass := bucket.ChargeAll(charges, models, now+q.Window().Microseconds(), true); !pass {
				t.Fatal("a whole window later it does not admit")
			}
		}
	})
}

// Several buckets: all pay, or none does.
func TestModelChargesAllOrNone(t *testing.T) {
	t.Parallel()
	wide, narrow := bucket.NewQuota(1, 100), bucket.NewQuota(1, 1)
	buckets := []*bucket.Model{{}, {}}
	charges := []bucket.Charge{{Quota: wide, Cost: 10}, {Quota: narrow, Cost: 1}}
	const now = 1_800_000_000_000_000
	if _, pass := bucket.ChargeAll(charges, buckets, now, false); !pass {
		t.Fatal("full buckets refused")
	}
	before, _ := bucket.ChargeAll(charges, buckets, now, true)
	if _, pass := bucket.ChargeAll(charges, buckets, now, false); pass {
		t.Fatal("the narrow bucket gave two")
	}
	if after, _ := bucket.ChargeAll(charges, buckets, now, true); after[0] != before[0] {
		t.Fatalf("the wide bucket paid %d for what the narrow one refused", after[0]-before[0])
	}
}
