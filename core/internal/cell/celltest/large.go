package celltest

import (
	"os"
	"testing"
)

// faultsEnv is that of e2e/faults. Not set, as by `make test`, it asks for one representative of each kind; .ci/run sets it
// to all, for the tests with the race detector.
const faultsEnv = "FORGEQUEUE_FAULTS"

// Large skips a test that takes PostgreSQL as long as all others of its package together, but where all tests are asked
// for. like names a smaller test of the same.
func Large(tb testing.TB, like string) {
	tb.Helper()
	if os.Getenv(faultsEnv) == "" {
		tb.Skipf("%s is the one of its kind: %s=all runs this one too", like, faultsEnv)
	}
}

// Rounds is how often a test repeats what is left to chance: few times, or many where all tests are asked for.
func Rounds(few, many int) int {
	if os.Getenv(faultsEnv) == "" {
		return few
	}
	return many
}
