package queues_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/shared/api"
)

// The names outlive the call that made them. Without the race detector, which changes what the compiler does, they once
// did not: core crashed when it listed a queue with more than MaxDepthCount jobs.
func TestCappedDepthsAreNamed(t *testing.T) {
	t.Parallel()
	const many = api.MaxDepthCount + 1
	for want, depths := range map[string]queues.Depths{
		"":                 {Queued: api.MaxDepthCount},
		"queued":           {Queued: many},
		"scheduled queued": {Queued: many, Scheduled: many},
		"blocked scheduled queued running dead_letter": {Blocked: many, Scheduled: many, Queued: many, Running: many, DeadLetter: many},
	} {
		depths.Most = api.MaxDepthCount
		shown, names := depths.Shown()
		useStack(20)
		runtime.GC() // it refuses pointers into a stack
		if got := strings.Join(names, " "); got != want || max(shown.Blocked, shown.Scheduled, shown.Queued, shown.Running, shown.DeadLetter) != api.MaxDepthCount {
			t.Errorf("%+v, capped %q; want %q", shown, got, want)
		}
	}
}

// useStack writes over the stack below its caller.
//
//go:noinline
func useStack(depth int) int {
	var used [4096]int
	for i := range used {
		used[i] = depth
	}
	if depth > 0 {
		return useStack(depth-1) + used[depth]
	}
	return used[0]
}
