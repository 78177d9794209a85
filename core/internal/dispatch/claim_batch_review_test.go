package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A claim without wait probes all known lists of its lanes, however many there are.
func TestAProbeIsOfAllKnownLists(t *testing.T) {
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
	celltest.Eventually(t, "the first scan", f.d.Scanned)
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

// A caller that leaves does not delay others: those of its flush have their jobs before its
// have gone back.
func TestGivingBackHoldsUpNobody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refresh()
	f.submit(plain(), plain(), plain())
	f.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(CASE NEW.state WHEN ''running'' THEN 0.5 ELSE 4 END); RETURN NEW; END'`)
	f.exec(`CREATE TRIGGER slow BEFORE UPDATE OF state ON jobs FOR EACH ROW EXECUTE FUNCTION slow()`)
	call := f.claimCall()
	call.Max = 1
	first := f.goClaim(t.Context(), call)
	f.sleeping()
	leaving, leave := context.WithCancel(t.Context())
	defer leave()
	gone := f.goClaim(leaving, call)
	celltest.Eventually(t, "the second claim to wait", func() bool { return f.d.WaitingClaims() == 1 })
	stays := f.goClaim(t.Context(), call)
	celltest.Eventually(t, "both to wait", func() bool { return f.d.WaitingClaims() == 2 })
	<-first
	celltest.Eventually(t, "both to be under way", func() bool { return f.d.WaitingClaims() == 0 })
	leave()
	if got := <-stays; got.err != nil || len(got.jobs) != 1 || got.took > 3*time.Second {
		t.Errorf("the remaining caller has %d jobs after %v: %v", len(got.jobs), got.took, got.err)
	}
	if got := <-gone; len(got.jobs) != 0 {
		t.Errorf("the caller that left has %d jobs", len(got.jobs))
	}
	celltest.Eventually(t, "the job to go back", func() bool { return f.count(`SELECT count(*) FROM jobs WHERE state = 'queued'`) == 1 })
}

// sleeping waits until a statement of a core sleeps.
func (f *fixture) sleeping() {
	f.Helper()
	celltest.Eventually(f, "a statement to sleep", func() bool {
		return f.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`) > 0
	})
}
