package claims_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
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
			one := enginetest.In(names[i])
			one.Priority = new(priority)
			requests = append(requests, one)
		}
	}
	for _, one := range names {
		f.Lane(enginetest.In(one))
	}
	f.Submit(requests...)
	call := f.ClaimCall(names...)
	for n := len(requests); n > 0; {
		jobs := f.Claim(call)
		if n -= len(jobs); len(jobs) == 0 {
			t.Fatalf("%d jobs are not found", n)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.D.Run(ctx) }()
	celltest.Eventually(t, "the first scan", f.D.Scanned)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mine := f.D
	f.D = f.NewCore(f.Store) // whose hint is lost
	f.Submit(enginetest.In(names[len(names)-1]))
	f.D = mine
	if jobs := f.Claim(call); len(jobs) != 1 {
		t.Errorf("%d jobs are found, want 1", len(jobs))
	}
}

// A caller that leaves does not delay others: those of its flush have their jobs before its
// have gone back.
func TestGivingBackHoldsUpNobody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Refresh()
	f.Submit(enginetest.Plain(), enginetest.Plain(), enginetest.Plain())
	f.Exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(CASE NEW.state WHEN ''running'' THEN 0.5 ELSE 4 END); RETURN NEW; END'`)
	f.Exec(`CREATE TRIGGER slow BEFORE UPDATE OF state ON jobs FOR EACH ROW EXECUTE FUNCTION slow()`)
	call := f.ClaimCall()
	call.Max = 1
	first := f.GoClaim(t.Context(), call)
	f.sleeping()
	leaving, leave := context.WithCancel(t.Context())
	defer leave()
	gone := f.GoClaim(leaving, call)
	celltest.Eventually(t, "the second claim to wait", func() bool { return f.D.WaitingClaims() == 1 })
	stays := f.GoClaim(t.Context(), call)
	celltest.Eventually(t, "both to wait", func() bool { return f.D.WaitingClaims() == 2 })
	<-first
	celltest.Eventually(t, "both to be under way", func() bool { return f.D.WaitingClaims() == 0 })
	leave()
	if got := <-stays; got.Err != nil || len(got.Jobs) != 1 || got.Took > 3*time.Second {
		t.Errorf("the remaining caller has %d jobs after %v: %v", len(got.Jobs), got.Took, got.Err)
	}
	if got := <-gone; len(got.Jobs) != 0 {
		t.Errorf("the caller that left has %d jobs", len(got.Jobs))
	}
	celltest.Eventually(t, "the job to go back", func() bool { return f.Count(`SELECT count(*) FROM jobs WHERE state = 'queued'`) == 1 })
}

// sleeping waits until a statement of a core sleeps.
func (f *fixture) sleeping() {
	f.Helper()
	celltest.Eventually(f, "a statement to sleep", func() bool {
		return f.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`) > 0
	})
}
