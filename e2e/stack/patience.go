package stack

import (
	"flag"
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

// Eventually waits until done says so, asking again and again; Patience(within) is
// the guard against a hang.
func Eventually(tb testing.TB, within time.Duration, what string, done func() bool) {
	tb.Helper()
	within = Patience(within)
	deadline := time.Now().Add(within)
	for !done() {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
