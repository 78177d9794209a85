package telemetry_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// Two more goroutines may run than there are processors, once, and not where the environment or a container's limit says
// how many.
func TestTuneProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	t.Setenv("GOMAXPROCS", "") // it is as it was before afterwards
	for _, test := range []struct {
		environment string
		have, want  int
	}{
		{"", runtime.NumCPU(), runtime.NumCPU() + 2},
		{"", runtime.NumCPU() + 2, runtime.NumCPU() + 2},
		{"", runtime.NumCPU() + 1, runtime.NumCPU() + 1},
		{"3", runtime.NumCPU(), runtime.NumCPU()},
	} {
		if err := os.Setenv("GOMAXPROCS", test.environment); err != nil { //nolint:usetesting // Setenv above restores it
			t.Fatal(err)
		}
		runtime.GOMAXPROCS(test.have)
		telemetry.TuneProcessors()
		if got := runtime.GOMAXPROCS(0); got != test.want {
			t.Errorf("GOMAXPROCS=%s and %d: %d, want %d", test.environment, test.have, got, test.want)
		}
	}
}
