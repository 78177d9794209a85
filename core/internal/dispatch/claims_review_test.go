package dispatch_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/queue/queuetest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A claim without wait looks at all known lines of its lanes, however many there are.
func TestALookIsAtAllKnownLines(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var names []string
	var requests []api.SubmitRequest
	for i := range 210 {
		names = append(names, fmt.Sprint("q", i))
		for priority := range api.MaxPriority + 1 {
			one := in(names[i])
			one.Priority = new(priority)
			requests = append(requests, one)
		}
	}
	for _, one := range names {
		f.lane(in(one))
	}
	f.submit(requests...)
	call := f.claimCall(names...)
	for n := len(requests); n > 0; {
		jobs := f.claim(call)
		if n -= len(jobs); len(jobs) == 0 {
			t.Fatalf("%d jobs are not found", n)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.d.Run(ctx) }()
	queuetest.Eventually(t, "the first scan", f.d.Scanned)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mine := f.d
	f.d = f.newCore(f.store) // whose hint is lost
	f.submit(in(names[len(names)-1]))
	f.d = mine
	if jobs := f.claim(call); len(jobs) != 1 {
		t.Errorf("%d jobs are found, want 1", len(jobs))
	}
}
