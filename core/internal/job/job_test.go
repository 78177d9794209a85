package job_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/job"
)

var (
	states = []job.State{job.Blocked, job.Scheduled, job.Queued, job.Running, job.Completed, job.DeadLetter, job.Cancelled}
	events = []job.Event{
		job.Promote, job.Claim, job.Complete, job.Fail, job.Snooze, job.Release,
		job.LeaseExpired, job.Timeout, job.Cancel, job.DeadlinePast, job.Redrive,
	}
)

// The table as DESIGN §2 writes it, row by row: the test's own reading.
func TestNextFollowsTheTable(t *testing.T) {
	t.Parallel()
	last := job.Facts{Attempt: 3, MaxAttempts: 3}
	early := job.Facts{Attempt: 1, MaxAttempts: 3}
	with := func(f job.Facts, change func(*job.Facts)) job.Facts { change(&f); return f }
	permanent := with(early, func(f *job.Facts) { f.Permanent = true })
	delayed := with(early, func(f *job.Facts) { f.Delayed = true })
	cancelled := with(last, func(f *job.Facts) { f.CancelRequested = true })

	tests := []struct {
		from  job.State
		event job.Event
		facts job.Facts
		want  job.Verdict
	}{
		{job.Scheduled, job.Promote, early, job.Verdict{State: job.Queued}},
		{job.Queued, job.Claim, early, job.Verdict{State: job.Running}},
		{job.Running, job.Complete, early, job.Verdict{State: job.Completed}},
		{job.Running, job.Complete, cancelled, job.Verdict{State: job.Completed}},
		{job.Running, job.Fail, early, job.Verdict{State: job.Scheduled, Backoff: true}},
		{job.Running, job.Fail, last, job.Verdict{State: job.DeadLetter, Reason: job.Exhausted}},
		{job.Running, job.Fail, permanent, job.Verdict{State: job.DeadLetter, Reason: job.Permanent}},
		{job.Running, job.Fail, cancelled, job.Verdict{State: job.Cancelled}},
		{job.Running, job.Snooze, delayed, job.Verdict{State: job.Scheduled, AttemptBack: true}},
		{job.Running, job.Snooze, early, job.Verdict{State: job.Queued, AttemptBack: true}},
		{job.Running, job.Snooze, cancelled, job.Verdict{State: job.Cancelled, AttemptBack: true}},
		{job.Running, job.Release, last, job.Verdict{State: job.Queued, AttemptBack: true}},
		{job.Running, job.Release, cancelled, job.Verdict{State: job.Cancelled, AttemptBack: true}},
		{job.Running, job.LeaseExpired, early, job.Verdict{State: job.Queued}},
		{job.Running, job.LeaseExpired, last, job.Verdict{State: job.DeadLetter, Reason: job.WorkerLost}},
		{job.Running, job.LeaseExpired, cancelled, job.Verdict{State: job.Cancelled}},
		{job.Running, job.Timeout, early, job.Verdict{State: job.Scheduled, Backoff: true}},
		{job.Running, job.Timeout, last, job.Verdict{State: job.DeadLetter, Reason: job.Exhausted}},
		{job.Running, job.DeadlinePast, early, job.Verdict{State: job.DeadLetter, Reason: job.Deadline}},
		{job.Running, job.Cancel, early, job.Verdict{State: job.Running}},
		{job.Queued, job.Cancel, early, job.Verdict{State: job.Cancelled}},
		{job.Blocked, job.Cancel, early, job.Verdict{State: job.Cancelled}},
		{job.Scheduled, job.DeadlinePast, early, job.Verdict{State: job.DeadLetter, Reason: job.Deadline}},
		{job.DeadLetter, job.Redrive, last, job.Verdict{State: job.Queued}},
	}
	for _, test := range tests {
		got, err := job.Next(test.from, test.event, test.facts)
		if err != nil || got != test.want {
			t.Errorf("Next(%s, %s, %+v) = %+v, %v; want %+v", test.from, test.event, test.facts, got, err, test.want)
		}
	}
}

// What must hold for every state, event and fact, whatever the table says.
func TestNextKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom(states).Draw(t, "from")
		event := rapid.SampledFrom(events).Draw(t, "event")
		maxAttempts := rapid.IntRange(1, 1000).Draw(t, "max_attempts")
		facts := job.Facts{
			Attempt: rapid.IntRange(0, maxAttempts).Draw(t, "attempt"), MaxAttempts: maxAttempts,
			CancelRequested: rapid.Bool().Draw(t, "cancel_requested"),
			Permanent:       rapid.Bool().Draw(t, "permanent"), Delayed: rapid.Bool().Draw(t, "delayed"),
		}
		got, err := job.Next(from, event, facts)
		if err != nil {
			if !errors.Is(err, job.ErrNoTransition) || got != (job.Verdict{}) {
				t.Fatalf("error %v with verdict %+v", err, got)
			}
			return
		}
		if from.Terminal() && (from != job.DeadLetter || event != job.Redrive) {
			t.Fatalf("%s left its end by %s", from, event)
		}
		if (got.State == job.DeadLetter) != (got.Reason != "") {
			t.Fatalf("a reason goes with a dead letter and with nothing else: %+v", got)
		}
		if got.State == job.Running && event != job.Claim && event != job.Cancel {
			t.Fatalf("%s made a job running", event)
		}
		if got.AttemptBack && event != job.Snooze && event != job.Release {
			t.Fatalf("%s gave an attempt back", event)
		}
		waits := got.State == job.Queued || got.State == job.Scheduled
		if from == job.Running && waits && !got.AttemptBack && facts.Attempt >= facts.MaxAttempts {
			t.Fatalf("%s would spend attempt %d of %d", event, facts.Attempt+1, facts.MaxAttempts)
		}
		if from == job.Running && facts.CancelRequested && event != job.Cancel && got.State != job.Completed && got.State != job.Cancelled {
			t.Fatalf("a cancelled job went on: %s made it %s", event, got.State)
		}
	})
}

func TestBackoffForFailures1To200(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		retry := job.Retry{
			Base:   time.Duration(rapid.Int64Range(1, 7*24*3600*1000).Draw(t, "base_ms")) * time.Millisecond,
			Cap:    time.Duration(rapid.Int64Range(1, 7*24*3600*1000).Draw(t, "cap_ms")) * time.Millisecond,
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		random := rapid.Float64Range(0, 0.999999).Draw(t, "random")
		before := time.Duration(0)
		for n := 1; n <= 200; n++ {
			middle := job.Retry{Base: retry.Base, Cap: retry.Cap}.Wait(n, 0.5)
			if middle < before {
				t.Fatalf("failure %d waits %v, the one before %v", n, middle, before)
			}
			before = middle
			want := math.Min(float64(retry.Cap), float64(retry.Base)*math.Pow(2, math.Min(float64(n-1), 30)))
			low, high := want*(1-retry.Jitter), want*(1+retry.Jitter)
			got := retry.Wait(n, random)
			if got < job.MinBackoff {
				t.Fatalf("failure %d waits %v", n, got)
			}
			if got > job.MinBackoff && (float64(got) < low-1 || float64(got) > high+1) {
				t.Fatalf("failure %d waits %v, outside %v to %v", n, got, time.Duration(low), time.Duration(high))
			}
		}
	})
}

func TestBackoffCurves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		between := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(1, 7*24*3600*1000).Draw(t, name)) * time.Millisecond
		}
		retry := job.Retry{
			Base: between("base"), Cap: between("cap"), Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
			Curve: rapid.SampledFrom([]job.Curve{"", job.Exponential, job.Linear, job.Constant}).Draw(t, "curve"),
		}
		random := rapid.Float64Range(0, 0.999999).Draw(t, "random")
		smooth := retry
		smooth.Jitter = 0
		before := time.Duration(0)
		for n := 1; n <= 200; n++ {
			grown := map[job.Curve]float64{
				"": math.Exp2(math.Min(float64(n-1), 30)), job.Exponential: math.Exp2(math.Min(float64(n-1), 30)), job.Linear: float64(n), job.Constant: 1,
			}[retry.Curve]
			want := max(time.Duration(math.Min(float64(retry.Cap), float64(retry.Base)*grown)), job.MinBackoff)
			middle := smooth.Wait(n, random)
			if middle != want || middle < before {
				t.Fatalf("failure %d waits %v, want %v, the one before %v", n, middle, want, before)
			}
			before = middle
			if got := retry.Wait(n, random); got < job.MinBackoff || got > job.MinBackoff && math.Abs(float64(got-middle)) > retry.Jitter*float64(middle)+2 {
				t.Fatalf("failure %d waits %v, %v without jitter", n, got, middle)
			}
		}
		if retry.Wait(0, random) != retry.Wait(1, random) || retry.Wait(-1<<62, random) != retry.Wait(1, random) {
			t.Fatal("there is no failure before the first")
		}
	})
}

// Waiting for a destination doubles each time: as few as a policy allows.
func TestDeferring(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		retry := job.Retry{
			Base: time.Duration(rapid.Int64Range(1000, 600_000).Draw(t, "base_ms")) * time.Millisecond,
			Cap:  time.Duration(rapid.Int64Range(1000, 7*24*3600*1000).Draw(t, "cap_ms")) * time.Millisecond,
		}
		waited, waits := time.Duration(0), 0
		for waited < 24*time.Hour {
			wait := retry.Defer(waited, 0.5)
			if wait < job.MinBackoff || wait > max(retry.Cap, job.MinBackoff) {
				t.Fatalf("after %v it waits %v", waited, wait)
			}
			waited += wait
			waits++
		}
		if most := 24*time.Hour/retry.Cap + 24; waits > int(most) {
			t.Fatalf("%d deferrals in a day", waits)
		}
	})
	retry := job.DefaultRetry()
	if low, high := retry.Defer(time.Minute, 0), retry.Defer(time.Minute, 0.9999999); low != 48*time.Second || high < 71*time.Second || high > 72*time.Second {
		t.Errorf("jitter spreads over %v to %v, want 48 s to 72 s", low, high)
	}
}

func TestBackoffDefaults(t *testing.T) {
	t.Parallel()
	retry := job.Retry{Base: 5 * time.Second, Cap: 300 * time.Second, Jitter: 0.2}
	for n, want := range map[int]time.Duration{
		1: 5 * time.Second, 2: 10 * time.Second, 3: 20 * time.Second, 6: 160 * time.Second, 7: 300 * time.Second, 200: 300 * time.Second,
	} {
		if got := retry.Wait(n, 0.5); got != want {
			t.Errorf("failure %d waits %v, want %v", n, got, want)
		}
	}
	if low, high := retry.Wait(1, 0), retry.Wait(1, 0.9999999); low != 4*time.Second || high < 5990*time.Millisecond || high > 6*time.Second {
		t.Errorf("jitter spreads over %v to %v, want 4 s to 6 s", low, high)
	}
}

func TestTokenRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := func(name string) uuid.UUID {
			return uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name))
		}
		lease := job.Lease{Tenant: id("tenant"), Job: id("job"), Epoch: rapid.Int64Range(0, 1<<62).Draw(t, "epoch"), ID: id("id")}
		got, err := job.ParseToken(lease.Token())
		if err != nil || got != lease {
			t.Fatalf("%+v came back as %+v (%v)", lease, got, err)
		}
	})
	good := job.Lease{Epoch: 1}.Token()
	for _, bad := range []string{"", "x", good + "A", good[1:], good + "=", good[:len(good)-1] + "\n", " " + good} {
		if _, err := job.ParseToken(bad); !errors.Is(err, job.ErrToken) {
			t.Errorf("%q was taken for a token", bad)
		}
	}
}

func TestFingerprintGroupsByCause(t *testing.T) {
	t.Parallel()
	one := job.Fingerprint("mail", job.Exhausted, "timeout", "dial 10.0.0.1:443: after 30s, request 5f0c2a3e-1111-2222-3333-444455556666")
	other := job.Fingerprint("mail", job.Exhausted, "timeout", "dial 10.0.0.7:443: after 31s, request 6a0c2a3e-1111-2222-3333-444455556666")
	if one != other {
		t.Error("numbers and ids separate two errors of one cause")
	}
	for _, different := range []string{
		job.Fingerprint("sms", job.Exhausted, "timeout", "dial"),
		job.Fingerprint("mail", job.Permanent, "timeout", "dial"),
		job.Fingerprint("mail", job.Exhausted, "refused", "dial"),
		job.Fingerprint("mail", job.Exhausted, "timeout", "read"),
	} {
		if different == job.Fingerprint("mail", job.Exhausted, "timeout", "dial") {
			t.Error("two causes have one fingerprint")
		}
	}
}
