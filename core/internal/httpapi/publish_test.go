package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Nothing polls or refreshes in these tests: what a handler does not publish is not heard.

// waitFor waits for a change of a job, and returns when the job was read and the wait has begun.
func (f *fixture) waitFor(request hop.WaitForJobRequest) <-chan hop.Result[api.Job] {
	f.Helper()
	request.WaitMS = api.MaxWait.Milliseconds()
	answered := make(chan hop.Result[api.Job], 1)
	go func() { answered <- ask[api.Job](f, hop.WaitForJob.Path, item(f.tenant, request))[0] }()
	celltest.Eventually(f, "the wait", func() bool {
		return slices.Contains(f.core.Engine.Watches.Next(1<<20, 0), uuid.MustParse(request.ID))
	})
	f.idle()
	return answered
}

// idle waits until core runs no statement, in several checks in a row.
func (f *fixture) idle() {
	f.Helper()
	inARow := 0
	celltest.Eventually(f, "core to be idle", func() bool {
		var busy int
		if err := f.behind.QueryRow(f.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'forgequeue-core' AND state <> 'idle'`).Scan(&busy); err != nil {
			f.Fatal(err)
		}
		if inARow++; busy > 0 {
			inARow = 0
		}
		return inARow == 4
	})
}

// deadLetter makes one.
func (f *fixture) deadLetter() string {
	f.Helper()
	id := f.submit()
	fail := api.OutcomeRequest{JobID: id, Kind: api.KindFail, LeaseToken: f.claim().LeaseToken, Permanent: true, Error: &api.JobError{Type: "T", Message: "m"}}
	if o := f.outcome(f.tenant, fail); o.Problem != nil {
		f.Fatal(o.Problem)
	}
	return id
}

func TestACancelIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit()
	waiting := f.waitFor(hop.WaitForJobRequest{ID: id, Ended: true})
	one[hop.CancelResponse](f, hop.CancelJob.Path, f.tenant, hop.ID{ID: id})
	if got := <-waiting; got.Value == nil || got.Value.State != api.StateCancelled {
		t.Errorf("who waits for the end got %+v", got)
	}
	if n := testutil.ToFloat64(f.d.Metrics.Cancelled); n != 1 {
		t.Errorf("%v cancelled jobs are counted", n)
	}
	id = f.submit()
	f.claim()
	running := f.get(id)
	waiting = f.waitFor(hop.WaitForJobRequest{ID: id, Version: running.Version()})
	if requested := one[hop.CancelResponse](f, hop.CancelJob.Path, f.tenant, hop.ID{ID: id}).Requested; !requested {
		t.Error("the cancel of a running job was not requested")
	}
	if got := <-waiting; got.Value == nil || !got.Value.CancelRequested {
		t.Errorf("who waits for another version got %+v", got)
	}
}

// A caller that waits for the redrive of a dead letter learns that it is gone.
func TestADeletionIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i, remove := range []func(id string){
		func(id string) {
			if got := ask[struct{}](f, hop.DeleteJob.Path, item(f.tenant, hop.ID{ID: id}))[0]; got.Problem != nil {
				t.Error(got.Problem)
			}
		},
		func(id string) {
			one[json.RawMessage](f, hop.DiscardDeadLetters.Path, f.tenant, api.DeadLetterRequest{IDs: []string{id}})
		},
	} {
		id := f.deadLetter()
		waiting := f.waitFor(hop.WaitForJobRequest{ID: id, Seen: api.StateDeadLetter})
		remove(id)
		if got := <-waiting; got.Status != http.StatusNotFound || got.Problem == nil || got.Problem.Code != problem.NotFound {
			t.Errorf("%d: who waits got %+v", i, got)
		}
		if n := testutil.ToFloat64(f.d.Metrics.Discarded); n != float64(i+1) {
			t.Errorf("%v discarded dead letters are counted, want %d", n, i+1)
		}
	}
}

// The settings of a queue are in force at once in the core that changes them, and a resumed queue wakes the claims that wait.
func TestSettingsAreInForceAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := uuid.MustParse(f.tenant.Tenant)
	one[api.Queue](f, hop.PutQueue.Path, f.tenant, hop.Put[api.QueueRequest]{Name: "gone", Value: api.QueueRequest{MaxAttempts: new(7)}})
	if got := f.d.Settings(owner, "gone").MaxAttempts; got == nil || *got != 7 {
		t.Errorf("max_attempts is %v", got)
	}
	if got := ask[struct{}](f, hop.DeleteQueue.Path, item(f.tenant, hop.Name{Name: "gone"}))[0]; got.Problem != nil {
		t.Fatal(got.Problem)
	}
	if got := f.d.Settings(owner, "gone").MaxAttempts; got != nil {
		t.Errorf("max_attempts of a deleted queue is %d", *got)
	}

	id := f.submit()
	pause := func(paused bool) {
		one[api.Queue](f, hop.PauseQueue.Path, f.tenant, hop.Pause{Name: api.DefaultQueue, Paused: paused})
	}
	pause(true)
	if !f.d.Settings(owner, api.DefaultQueue).Paused {
		t.Error("the pause is not known")
	}
	claimed := make(chan hop.Result[api.ClaimResponse], 1)
	go func() {
		claimed <- ask[api.ClaimResponse](f, hop.ClaimJobs.Path, item(f.tenant, claimOf(25*time.Second)))[0]
	}()
	celltest.Eventually(t, "the claim to park", func() bool { return f.d.ParkedClaims() == 1 })
	f.idle()
	pause(false)
	if got := <-claimed; got.Value == nil || len(got.Value.Jobs) != 1 || got.Value.Jobs[0].ID != id {
		t.Errorf("the claim got %+v", got)
	}
}

// What makes or changes a schedule ends the sleep of the duty that works off ticks.
func TestAChangedScheduleKicksTheDuty(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kicks := f.core.Engine.Publisher.Schedules
	kicked := func(what string) {
		t.Helper()
		select {
		case <-kicks:
		default:
			t.Errorf("%s kicks no duty", what)
		}
	}
	one[api.Schedule](f, hop.PutSchedule.Path, f.tenant, hop.Put[api.ScheduleRequest]{Name: "s", Value: api.ScheduleRequest{
		EveryMS: new(time.Hour.Milliseconds()), Job: api.ScheduleJob{Type: "x"},
	}})
	kicked("a new schedule")
	for _, paused := range []bool{true, false} {
		one[api.Schedule](f, hop.PauseSchedule.Path, f.tenant, hop.Pause{Name: "s", Paused: paused})
		kicked("a pause or its end")
	}
}

// A probe reaches the breaker of the destination at once.
func TestAProbeReachesTheBreaker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	probed := map[string]int64{}
	f.core.Engine.Cached.Breakers.Show(
		func(tenant.QueueKey) *api.Breaker { return nil },
		func(key tenant.QueueKey, probes int64) { probed[key.Name] = probes },
	)
	one[api.Queue](f, hop.PutQueue.Path, f.tenant, pushes())
	one[api.Queue](f, hop.ProbeQueue.Path, f.tenant, hop.Name{Name: "hooks"})
	one[api.Webhook](f, hop.PutWebhook.Path, f.tenant, hop.Put[api.WebhookRequest]{Name: "w", Value: api.WebhookRequest{
		URL: "https://example.com/hook", Events: []string{api.EventJobCompleted},
	}})
	one[api.Webhook](f, hop.ProbeWebhook.Path, f.tenant, hop.Name{Name: "w"})
	if probed["hooks"] != 1 || probed[api.WebhookQueue("w")] != 1 {
		t.Errorf("probed: %v", probed)
	}
}
