package stack

import (
	"flag"
	"os"
	"testing"
	"time"
)

// Patience is how long a wait may take before it counts as a hang, where it takes that
// long at most on a machine with nothing else to do: three times as long, and longer
// where the tests were given more time, as on a slow machine (make test-slow).
func Patience(usual time.Duration) time.Duration {
	const (
		least = 3
		each  = 5 * time.Minute // of -timeout: one more
	)
	factor := int64(least)
	if timeout := flag.Lookup("test.timeout"); timeout != nil {
		if given, ok := timeout.Value.(flag.Getter).Get().(time.Duration); ok {
			factor = max(factor, int64(given/each))
		}
	}
	return usual * time.Duration(factor)
}

// All says whether all tests are asked for, as by .ci/run, and not a representative of each kind, as by make test: see
// e2e/faults.
func All() bool { return os.Getenv("FORGEQUEUE_FAULTS") != "" }

// Eventually waits until done says so, asking again and again; Patience(within) is
// the guard against a hang. It asks ever more seldom: to ask takes from what is waited
// for, on a machine that is busy with both.
func Eventually(tb testing.TB, within time.Duration, what string, done func() bool) {
	tb.Helper()
	within = Patience(within)
	deadline, pause := time.Now().Add(within), 10*time.Millisecond
	for ; !done(); pause = min(pause*3/2, 250*time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(pause)
	}
}
