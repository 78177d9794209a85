package bucket_test

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
)

// scriptSteps is how many steps the script is held to its model for, in two
// halves: on the clock of Redis, and on one that jumps. 1,000,000 on demand:
// FORGEQUEUE_SCRIPT_STEPS.
const scriptSteps = 40_000

// stepsPerCheck spreads them over rapid's 100 checks.
func stepsPerCheck(t *testing.T) int {
	steps := scriptSteps
	if want := os.Getenv("FORGEQUEUE_SCRIPT_STEPS"); want != "" {
		var err error
		if steps, err = strconv.Atoi(want); err != nil {
			t.Fatalf("FORGEQUEUE_SCRIPT_STEPS: %v", err)
		}
	}
	return steps / 2 / 100
}

// held is one bucket of the script, its model, and the quota now in force.
type held struct {
	key   string
	quota bucket.Quota
	model *bucket.Model
}

// The script is its model on the clock of Redis, which the model is told: the
// real expiry, the real TIME.
func TestScriptIsItsModel(t *testing.T) {
	t.Parallel()
	steps := stepsPerCheck(t)
	r := dial(t, storetest.Redis(t), hang)
	rapid.Check(t, func(rt *rapid.T) {
		// Fast enough that microseconds matter.
		rates := rapid.OneOf(rapid.Float64Range(100, 1e6), rapid.SampledFrom([]float64{0.2, 5, 333_333.333, 1_000_000}))
		compare(t, rt, r, bucket.LimiterScript(), steps, rates, nil)
	})
}

// And on a clock that stands, jumps by years and goes back, near all bounds.
func TestScriptIsItsModelOnAnyClock(t *testing.T) {
	t.Parallel()
	steps := stepsPerCheck(t)
	r := dial(t, storetest.Redis(t), hang)
	source := bucket.LimiterScript()
	for old, replacement := range map[string]string{
		"local time = redis.call('TIME')\nlocal now = time[1] * 1000000 + time[2]": "local now = tonumber(ARGV[#ARGV])",
		"string.format('%d', life)": "600000", // by the real clock, not by the jumping one
	} {
		if strings.Count(source, old) != 1 {
			t.Fatalf("limiter.lua does not have %q once", old)
		}
		source = strings.Replace(source, old, replacement, 1)
	}
	rapid.Check(t, func(rt *rapid.T) {
		rates := rapid.OneOf(rapid.Float64Range(0.001, 1e9), rapid.SampledFrom([]float64{0.001, 0.2, 5, 1e9}))
		now := rapid.Int64Range(1_700_000_000_000_000, 4_100_000_000_000_000).Draw(rt, "begins")
		compare(t, rt, r, source, steps, rates, func(rt *rapid.T) int64 {
			now += rapid.OneOf(
				rapid.Int64Range(0, 3), rapid.Int64Range(-1_000, 1_000_000), rapid.Int64Range(-1_000_000_000, 1_000_000_000_000),
			).Draw(rt, "passes")
			return now
		})
	})
}

// compare runs steps against buckets of their own, 200 a round trip, and holds
// each answer to the model.
func compare(t *testing.T, rt *rapid.T, r *redisclient.Client, source string, steps int, rates *rapid.Generator[float64], clock func(*rapid.T) int64) {
	bursts := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, math.MaxInt64))
	tag, buckets := uuid.NewString(), make([]*held, rapid.IntRange(1, 4).Draw(rt, "buckets"))
	for i := range buckets {
		buckets[i] = &held{key: fmt.Sprintf("{%s}:%d", tag, i), model: &bucket.Model{}}
		buckets[i].quota = bucket.NewQuota(rates.Draw(rt, "rate"), bursts.Draw(rt, "burst"))
	}
	for done := 0; done < steps; {
		n := min(200, steps-done)
		script, charges, chosen := make([]bucket.Step, n), make([][]bucket.Charge, n), make([][]*held, n)
		for i := range script {
			if rapid.IntRange(0, 99).Draw(rt, "change") == 0 { // of a plan
				changed := rapid.SampledFrom(buckets).Draw(rt, "whose")
				changed.quota = bucket.NewQuota(rates.Draw(rt, "rate"), bursts.Draw(rt, "burst"))
			}
			first := rapid.IntRange(0, len(buckets)-1).Draw(rt, "first")
			chosen[i] = buckets[first : first+rapid.IntRange(1, len(buckets)-first).Draw(rt, "count")]
			mode := "charge"
			if rapid.IntRange(0, 9).Draw(rt, "mode") == 0 {
				mode = "peek"
			}
			times := 1
			if mode == "charge" {
				times = rapid.SampledFrom([]int{1, 1, 2, 3, 50}).Draw(rt, "times")
			}
			step := bucket.Step{Args: []any{mode, 0, times}}
			for _, b := range chosen[i] {
				c := bucket.Charge{Quota: b.quota, Cost: cost(rt, b.quota.Burst())}
				charges[i] = append(charges[i], c)
				step.Keys, step.Args = append(step.Keys, b.key), append(step.Args, c.Arguments()...)
			}
			if clock != nil {
				step.Args = append(step.Args, clock(rt))
			}
			script[i] = step
		}
		if err := bucket.RunScript(t.Context(), r, source, script); err != nil {
			rt.Fatal(err)
		}
		for i, step := range script {
			check(rt, step, charges[i], chosen[i])
		}
		done += n
	}
	behind := raw(t, storetest.Redis(t))
	for _, b := range buckets {
		if err := behind.Del(t.Context(), b.key).Err(); err != nil {
			rt.Fatal(err)
		}
	}
}

func cost(t *rapid.T, burst int64) int64 {
	return rapid.OneOf(rapid.Int64Range(0, min(3, burst)), rapid.Int64Range(1, burst)).Draw(t, "cost")
}

func check(t *rapid.T, step bucket.Step, charges []bucket.Charge, chosen []*held) {
	models := make([]*bucket.Model, len(chosen))
	for i, b := range chosen {
		models[i] = b.model
	}
	debts, pass := bucket.ChargeAll(charges, models, step.Now, step.Args[0] == "peek")
	var passed int64
	if pass {
		passed++
	}
	for range step.Args[2].(int) - 1 { // equal ones, as if each had come alone
		if _, again := bucket.ChargeAll(charges, models, step.Now, false); again {
			passed++
		} else {
			pass = false
		}
	}
	if pass != (step.Verdict == bucket.Admitted) || passed != step.Passed {
		t.Fatalf("%v: the script says %v (%d pass), the model %v (%d); debts %v and %v", step.Args, step.Verdict, step.Passed, pass, passed, step.Debts, debts)
	}
	for i, debt := range debts {
		if step.Debts[i] != debt {
			t.Fatalf("%v: bucket %d has a debt of %d by the script, of %d by the model", step.Args, i, step.Debts[i], debt)
		}
	}
}

// What no model says: every key expires, and what is in a key that is not ours
// is a full bucket.
func TestScriptKeys(t *testing.T) {
	t.Parallel()
	r := dial(t, storetest.Redis(t), hang)
	behind := raw(t, storetest.Redis(t))
	key := "{" + uuid.NewString() + "}:bucket"
	slow, fast := bucket.NewQuota(0.2, 10), bucket.NewQuota(1000, 10)
	call := func(q bucket.Quota, cost int64) bucket.Step {
		t.Helper()
		steps := []bucket.Step{{Keys: []string{key}, Args: append([]any{"charge", 0, 1}, bucket.Charge{Quota: q, Cost: cost}.Arguments()...)}}
		if err := bucket.RunScript(t.Context(), r, bucket.LimiterScript(), steps); err != nil {
			t.Fatal(err)
		}
		return steps[0]
	}
	for _, q := range []bucket.Quota{slow, fast} {
		if err := behind.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		call(q, 10)
		life, err := behind.PTTL(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if life > q.Window()+2e6 || life < q.Window()/2 && q == slow {
			t.Errorf("a key lives %v, its bucket needs %v", life, q.Window())
		}
	}
	for _, value := range []string{
		"", "x", strings.Repeat("\x00", 24), strings.Repeat("\xff", 24), strings.Repeat("\x7f", 24), strings.Repeat("7", 17),
	} {
		if err := behind.Set(t.Context(), key, value, hang).Err(); err != nil {
			t.Fatal(err)
		}
		if step := call(slow, 0); step.Debts[0] < 0 || step.Debts[0] > slow.Ticks() {
			t.Errorf("%q is a debt of %d", value, step.Debts[0])
		}
	}
	if err := behind.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := behind.LPush(t.Context(), key, "a list").Err(); err != nil {
		t.Fatal(err)
	}
	if step := call(slow, 10); step.Verdict != bucket.Admitted || step.Debts[0] != 0 {
		t.Errorf("a key of another type: %v", step)
	}
}
