package cache_test

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
		if err := f.Store.Queues.Put(t.Context(), f.Tenant, name, request); err != nil {
			t.Fatal(err)
		}
		f.Refresh()
	}
	to := func(url string) api.QueueRequest { return api.QueueRequest{Push: &api.PushRequest{URL: url}} }
	known := 0
	want := func(when string, n int) {
		t.Helper()
		f.Refresh() // which reads the rows of the last minute again
		f.D.ReadAllLanes()
		f.Refresh()
		queues, changes := f.D.Cached.Lanes.PushSettings(known)
		if changes == known || len(queues) != n {
			t.Errorf("%s: %d queues are given, change %d after %d; want %d", when, len(queues), changes, known, n)
		}
		f.Refresh()
		if queues, again := f.D.Cached.Lanes.PushSettings(changes); queues != nil || again != changes {
			t.Errorf("%s: %d queues are given again, change %d after %d", when, len(queues), again, changes)
		}
		known = changes
	}
	put("pulled", api.QueueRequest{})
	if queues, changes := f.D.Cached.Lanes.PushSettings(known); queues != nil || changes != known {
		t.Errorf("without any: %d queues, change %d", len(queues), changes)
	}
	put("a", to("https://example.com/a"))
	put("b", to("https://example.com/b"))
	want("two", 2)
	put("a", to("https://example.com/c"))
	want("another URL", 2)
	put("pulled", api.QueueRequest{MaxRunning: new(int64(1))})
	if queues, changes := f.D.Cached.Lanes.PushSettings(known); queues != nil || changes != known {
		t.Errorf("another queue's setting: %d queues, change %d", len(queues), changes)
	}
	put("b", api.QueueRequest{Mode: new(api.ModePull)})
	want("one is pulled", 1)
	if err := f.D.DeleteQueue(t.Context(), f.Tenant, "a"); err != nil {
		t.Fatal(err)
	}
	want("one is deleted", 0)
}
