package queue_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/queue"
)

func TestHearing(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	silence := func(ended, length float64) queue.Silence {
		return queue.Silence{Ended: at(ended), Length: at(length).Sub(start)}
	}
	var h queue.Hearing
	for _, step := range []struct {
		at     float64
		silent bool
		want   []queue.Silence
	}{
		{0, true, []queue.Silence{{Ended: start, Length: queue.Longest}}},
		{0.5, false, []queue.Silence{{Ended: start, Length: queue.Longest}}},
		{3, true, []queue.Silence{{Ended: start, Length: queue.Longest}, silence(3, 2)}},
		{4.5, true, []queue.Silence{{Ended: start, Length: queue.Longest}, silence(3, 2), silence(4.5, 1)}},
		{14, true, []queue.Silence{{Ended: start, Length: queue.Longest}, silence(14, 9)}},     // longer than those before it
		{13.99, false, []queue.Silence{{Ended: start, Length: queue.Longest}, silence(14, 9)}}, // overtaken
		{14.5, false, []queue.Silence{{Ended: start, Length: queue.Longest}, silence(14, 9)}},  //
		{43200, true, []queue.Silence{silence(43200, 43185)}},                                  // after half a day nobody waits
		{3600, false, nil}, // the clock was set back
		{3600.4, false, nil},
	} {
		silent := h.Hear(at(step.at))
		if diff := cmp.Diff(step.want, h.Silences, cmpopts.EquateEmpty()); diff != "" || silent != step.silent {
			t.Fatalf("at %v s silent is %v, want %v\n%s", step.at, silent, step.silent, diff)
		}
	}
}

// A lease that ran out in a silence of a third of its length waits for its holder, for twice
// as long; also where it is the reaper's statement that ends the silence.
func TestReapAfterASilence(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Jobs(1)...)
	if got := f.Claim(1, 90*time.Second); len(got) != 1 {
		t.Fatal("nothing is claimed")
	}
	f.Exec(`UPDATE jobs SET lease_expires_at = now() - interval '1 ms'`)
	now := func() time.Time {
		at, err := f.Store.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	reap := func(h queue.Hearing) int {
		reaped, _, err := f.Store.ReapAfter(t.Context(), &h, queue.Ever, queue.ReapPlace{}, 10, celltest.Half)
		if err != nil {
			t.Fatal(err)
		}
		return len(reaped)
	}
	of := func(ago, length time.Duration) queue.Silence {
		return queue.Silence{Ended: now().Add(-ago), Length: length}
	}
	if n := reap(queue.Hearing{Last: now(), Silences: []queue.Silence{of(0, 30*time.Second)}}); n != 0 {
		t.Fatalf("right after a silence of a third: %d leases are taken back", n)
	}
	if n := reap(queue.Hearing{Last: now().Add(-40 * time.Second)}); n != 0 {
		t.Fatalf("by the statement that ends the silence: %d leases are taken back", n)
	}
	// Its heartbeat was answered at the silence's end: it sends the next a third later, and
	// that one takes its time.
	if n := reap(queue.Hearing{Last: now(), Silences: []queue.Silence{of(40*time.Second, 30*time.Second)}}); n != 0 {
		t.Fatalf("a third of the lease after the silence: %d leases are taken back", n)
	}
	longAgo, short := of(61*time.Second, queue.Longest), of(0, 29*time.Second)
	if n := reap(queue.Hearing{Last: now(), Silences: []queue.Silence{longAgo, short}}); n != 1 {
		t.Fatalf("after one long ago, and a short one: %d leases are taken back, want 1", n)
	}
}
