package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drive lets n jobs start every so often, for a time, while jobs wait, and checks the rate at random moments.
func drive(t *rapid.T, m *meter, now time.Time, n int64, every, long time.Duration, check func(time.Time)) time.Time {
	for end := now.Add(long); now.Before(end); {
		m.started(now, n, time.Hour)
		m.backlog = true
		if check != nil {
			check(now.Add(time.Duration(rapid.Float64Range(0, 0.99).Draw(t, "after") * float64(every))))
		}
		now = now.Add(every)
	}
	return now
}

// The rate of a steady drain is right at any moment between two claims: of single jobs, of many at once, of long ones.
func TestSteadyAndBursts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(math.Exp(rapid.Float64Range(math.Log(float64(5*time.Millisecond)), math.Log(float64(90*time.Second))).Draw(t, "every")))
		n := rapid.Int64Range(1, 500).Draw(t, "jobs at once")
		m := &meter{}
		now := drive(t, m, time.Unix(1e9, 0), n, every, max(5*time.Second, 2*every)+every/2, nil)
		want := float64(n) / every.Seconds()
		drive(t, m, now, n, every, max(20*time.Second, 5*every), func(at time.Time) {
			got := m.pace(at)
			if got.PerSecond == 0 && every < quiet {
				t.Fatalf("unknown with %d jobs every %v", n, every)
			}
			if line := got.PerSecond / got.Busy; got.PerSecond > 0 && (line < 0.7*want || line > 1.3*want) {
				t.Fatalf("%v a second, want %v", line, want)
			}
		})
	})
}

// After a change of the rate the average follows; after a pause it is unknown, and starts from nothing.
func TestChangeAndPause(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := time.Duration(rapid.Int64Range(int64(10*time.Millisecond), int64(2*time.Second)).Draw(t, "first"))
		second := time.Duration(rapid.Int64Range(int64(10*time.Millisecond), int64(2*time.Second)).Draw(t, "second"))
		m := &meter{}
		now := drive(t, m, time.Unix(1e9, 0), 1, first, time.Minute, nil)
		now = drive(t, m, now, 1, second, time.Minute, nil)
		near := func(want, before float64) { // a fiftieth of what was a minute before is left
			t.Helper()
			if got := m.pace(now).PerSecond; got < 0.75*want || got > 1.3*want+before/50 {
				t.Fatalf("%v a second, want %v", got, want)
			}
		}
		near(1/second.Seconds(), 1/first.Seconds())
		before := m.pace(now)
		if after := m.pace(now.Add(10 * time.Second)); after.PerSecond >= before.PerSecond {
			t.Fatalf("%v a second, 10 s without a start after %v", after.PerSecond, before.PerSecond)
		}
		if after := m.pace(now.Add(quiet + 2*second + time.Second)); after != (Pace{}) {
			t.Fatalf("%v a second after a pause", after.PerSecond)
		}
		now = now.Add(time.Duration(rapid.Int64Range(int64(20*time.Second), int64(time.Hour)).Draw(t, "pause")))
		if m.started(now, 1, time.Hour); m.spans[1].starts != 0 {
			t.Fatal("the time before the pause counts")
		}
		now = drive(t, m, now.Add(first), 1, first, 3*time.Second+2*first, nil)
		near(1/first.Seconds(), 0)
	})
}

// Jobs that start as soon as they are ready say nothing of how fast a line moves, and do not slow a later one.
func TestNoBacklog(t *testing.T) {
	t.Parallel()
	m := &meter{}
	now := time.Unix(1e9, 0)
	for range 100 {
		now = now.Add(2 * time.Second)
		m.started(now, 1, time.Millisecond)
	}
	if got := m.pace(now); got.Busy != 0 || math.Abs(got.PerSecond-0.5) > 0.05 {
		t.Errorf("%+v", got)
	}
	for range 100 {
		now = now.Add(50 * time.Millisecond)
		m.started(now, 1, time.Hour)
		m.backlog = true
	}
	if got := m.pace(now); got.Busy == 0 || math.Abs(got.line()-20) > 5 {
		t.Errorf("%+v: the line moves 20 a second", got)
	}
}

// A random order of starts never makes a rate that is no number, or below zero.
func FuzzMeter(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		m, now := &meter{}, time.Unix(1e9, 0)
		for range 200 {
			now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second)))
			m.started(now, random.Int64N(5), time.Duration(random.ExpFloat64()*float64(time.Second)))
			m.backlog = random.IntN(2) == 0
			got := m.pace(now.Add(time.Duration(random.ExpFloat64() * float64(time.Second))))
			if !(got.PerSecond >= 0) || math.IsInf(got.PerSecond, 0) || !(got.Busy >= 0 && got.Busy <= 1) {
				t.Fatalf("%+v", got)
			}
		}
	})
}
