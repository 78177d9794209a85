package dispatch_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// What is pushed where is given again only where it has changed: the executor asks four times a second, and may have ten
// thousand webhooks.
func TestPushQueuesAreGivenWhenTheyChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	put := func(name string, request api.QueueRequest) {
		t.Helper()
		if err := f.store.Queues.Put(t.Context(), f.tenant, name, request); err != nil {
			t.Fatal(err)
		}
		f.refresh()
	}
	to := func(url string) api.QueueRequest { return api.QueueRequest{Push: &api.PushRequest{URL: url}} }
	known := 0
	want := func(when string, n int) {
		t.Helper()
		f.refresh() // which reads the rows of the last minute again
		f.d.ReadAllLanes()
		f.refresh()
		queues, changes := f.d.PushQueues(known)
		if changes == known || len(queues) != n {
			t.Errorf("%s: %d queues are given, change %d after %d; want %d", when, len(queues), changes, known, n)
		}
		f.refresh()
		if queues, again := f.d.PushQueues(changes); queues != nil || again != changes {
			t.Errorf("%s: %d queues are given again, change %d after %d", when, len(queues), again, changes)
		}
		known = changes
	}
	put("pulled", api.QueueRequest{})
	if queues, changes := f.d.PushQueues(known); queues != nil || changes != known {
		t.Errorf("without any: %d queues, change %d", len(queues), changes)
	}
	put("a", to("https://example.com/a"))
	put("b", to("https://example.com/b"))
	want("two", 2)
	put("a", to("https://example.com/c"))
	want("another URL", 2)
	put("pulled", api.QueueRequest{MaxRunning: new(int64(1))})
	if queues, changes := f.d.PushQueues(known); queues != nil || changes != known {
		t.Errorf("another queue's setting: %d queues, change %d", len(queues), changes)
	}
	put("b", api.QueueRequest{Mode: new(api.ModePull)})
	want("one is pulled", 1)
	if err := f.d.DeleteQueue(t.Context(), f.tenant, "a"); err != nil {
		t.Fatal(err)
	}
	want("one is deleted", 0)
}
