package jobs_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
)

func TestContact(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	outage := func(ended, length float64) jobs.Outage {
		return jobs.Outage{Ended: at(ended), Length: at(length).Sub(start)}
	}
	var h jobs.Contact
	for _, step := range []struct {
		at        float64
		wasOutage bool
		want      []jobs.Outage
	}{
		{0, true, []jobs.Outage{{Ended: start, Length: jobs.UnknownLength}}},
		{0.5, false, []jobs.Outage{{Ended: start, Length: jobs.UnknownLength}}},
		{3, true, []jobs.Outage{{Ended: start, Length: jobs.UnknownLength}, outage(3, 2)}},
		{4.5, true, []jobs.Outage{{Ended: start, Length: jobs.UnknownLength}, outage(3, 2), outage(4.5, 1)}},
		{14, true, []jobs.Outage{{Ended: start, Length: jobs.UnknownLength}, outage(14, 9)}},     // longer than those before it
		{13.99, false, []jobs.Outage{{Ended: start, Length: jobs.UnknownLength}, outage(14, 9)}}, // overtaken
		{14.5, false, []jobs.Outage{{Ended: start, Length: jobs.UnknownLength}, outage(14, 9)}},  //
		{43200, true, []jobs.Outage{outage(43200, 43185)}},                                       // after half a day no lease waits
		{3600, false, nil}, // the clock was set back
		{3600.4, false, nil},
	} {
		wasOutage := h.Answered(at(step.at))
		if diff := cmp.Diff(step.want, h.Outages, cmpopts.EquateEmpty()); diff != "" || wasOutage != step.wasOutage {
			t.Fatalf("at %v s wasOutage is %v, want %v\n%s", step.at, wasOutage, step.wasOutage, diff)
		}
	}
}

// Where no lease is held PostgreSQL is asked each second: only what is longer than that is an outage.
func TestContactWhileNoLeaseIsHeld(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h := jobs.Contact{Last: start, Seldom: true}
	if h.Answered(start.Add(1400 * time.Millisecond)) {
		t.Error("1.4 s are an outage")
	}
	if !h.Answered(start.Add(4400*time.Millisecond)) || len(h.Outages) != 1 || h.Outages[0].Length != 1500*time.Millisecond {
		t.Errorf("after 3 s: %+v", h.Outages)
	}
	h.Seldom = false
	if !h.Answered(start.Add(5400 * time.Millisecond)) {
		t.Error("1 s is no outage while leases are held")
	}
}

// A lease that ran out in an outage of a third of its length waits for its holder, for twice
// as long; also where it is the reaper's statement that ends the outage.
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
	reap := func(h jobs.Contact) int {
		reaped, _, err := f.Store.Jobs.ReapAfter(t.Context(), &h, jobs.AllTime, jobs.ReapPlace{}, 10, celltest.Half)
		if err != nil {
			t.Fatal(err)
		}
		return len(reaped)
	}
	of := func(ago, length time.Duration) jobs.Outage {
		return jobs.Outage{Ended: now().Add(-ago), Length: length}
	}
	if n := reap(jobs.Contact{Last: now(), Outages: []jobs.Outage{of(0, 30*time.Second)}}); n != 0 {
		t.Fatalf("right after an outage of a third: %d leases are taken back", n)
	}
	if n := reap(jobs.Contact{Last: now().Add(-40 * time.Second)}); n != 0 {
		t.Fatalf("by the statement that ends the outage: %d leases are taken back", n)
	}
	// Its heartbeat was answered at the outage's end: it sends the next a third later, and
	// that one takes its time.
	if n := reap(jobs.Contact{Last: now(), Outages: []jobs.Outage{of(40*time.Second, 30*time.Second)}}); n != 0 {
		t.Fatalf("a third of the lease after the outage: %d leases are taken back", n)
	}
	longAgo, short := of(61*time.Second, jobs.UnknownLength), of(0, 29*time.Second)
	if n := reap(jobs.Contact{Last: now(), Outages: []jobs.Outage{longAgo, short}}); n != 1 {
		t.Fatalf("after one long ago, and a short one: %d leases are taken back, want 1", n)
	}
}
