package operations_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Nothing polls or refreshes in these tests: what a handler does not publish is not heard.

// waitFor waits for a change of a job, and returns when the job was read and the wait has begun.
func waitFor(f *calltest.Core, request hop.WaitForJobRequest) <-chan hop.Result[api.Job] {
	f.Helper()
	request.WaitMS = api.MaxWait.Milliseconds()
	answered := make(chan hop.Result[api.Job], 1)
	go func() { answered <- calltest.Ask[api.Job](f, hop.WaitForJob.Path, calltest.Item(f.Tenant, request))[0] }()
	celltest.Eventually(f, "the wait", func() bool {
		return slices.Contains(f.Memory.Watches.Next(1<<20, 0), uuid.MustParse(request.ID))
	})
	idle(f)
	return answered
}

// idle waits until core runs no statement, in several checks in a row.
func idle(f *calltest.Core) {
	f.Helper()
	inARow := 0
	celltest.Eventually(f, "core to be idle", func() bool {
		var busy int
		if err := f.Behind.QueryRow(f.Context(), `SELECT count(*) FROM pg_stat_activity
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
func deadLetter(f *calltest.Core) string {
	f.Helper()
	id := f.Submit()
	fail := api.OutcomeRequest{JobID: id, Kind: api.KindFail, LeaseToken: f.Claim().LeaseToken, Permanent: true, Error: &api.JobError{Type: "T", Message: "m"}}
	if o := f.Outcome(f.Tenant, fail); o.Problem != nil {
		f.Fatal(o.Problem)
	}
	return id
}

func TestACancelIsTold(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	id := f.Submit()
	waiting := waitFor(f, hop.WaitForJobRequest{ID: id, Ended: true})
	calltest.One[hop.CancelResponse](f, hop.CancelJob.Path, f.Tenant, hop.ID{ID: id})
	if got := <-waiting; got.Value == nil || got.Value.State != api.StateCancelled {
		t.Errorf("who waits for the end got %+v", got)
	}
	if n := testutil.ToFloat64(f.Memory.Metrics.Cancelled); n != 1 {
		t.Errorf("%v cancelled jobs are counted", n)
	}
	id = f.Submit()
	f.Claim()
	running := f.Get(id)
	waiting = waitFor(f, hop.WaitForJobRequest{ID: id, Version: running.Version()})
	if requested := calltest.One[hop.CancelResponse](f, hop.CancelJob.Path, f.Tenant, hop.ID{ID: id}).Requested; !requested {
		t.Error("the cancel of a running job was not requested")
	}
	if got := <-waiting; got.Value == nil || !got.Value.CancelRequested {
		t.Errorf("who waits for another version got %+v", got)
	}
}

// A caller that waits for the redrive of a dead letter learns that it is gone.
func TestADeletionIsTold(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	for i, remove := range []func(id string){
		func(id string) {
			if got := calltest.Ask[struct{}](f, hop.DeleteJob.Path, calltest.Item(f.Tenant, hop.ID{ID: id}))[0]; got.Problem != nil {
				t.Error(got.Problem)
			}
		},
		func(id string) {
			calltest.One[json.RawMessage](f, hop.DiscardDeadLetters.Path, f.Tenant, api.DeadLetterRequest{IDs: []string{id}})
		},
	} {
		id := deadLetter(f)
		waiting := waitFor(f, hop.WaitForJobRequest{ID: id, Seen: api.StateDeadLetter})
		remove(id)
		if got := <-waiting; got.Status != http.StatusNotFound || got.Problem == nil || got.Problem.Code != problem.NotFound {
			t.Errorf("%d: who waits got %+v", i, got)
		}
		if n := testutil.ToFloat64(f.Memory.Metrics.Discarded); n != float64(i+1) {
			t.Errorf("%v discarded dead letters are counted, want %d", n, i+1)
		}
	}
}

// The settings of a queue are in force at once in the core that changes them, and a resumed queue wakes the claims that wait.
func TestSettingsAreInForceAtOnce(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	owner := uuid.MustParse(f.Tenant.Tenant)
	calltest.One[api.Queue](f, hop.PutQueue.Path, f.Tenant, hop.Put[api.QueueRequest]{Name: "gone", Value: api.QueueRequest{MaxAttempts: new(7)}})
	if got := f.Memory.Settings(owner, "gone").MaxAttempts; got == nil || *got != 7 {
		t.Errorf("max_attempts is %v", got)
	}
	if got := calltest.Ask[struct{}](f, hop.DeleteQueue.Path, calltest.Item(f.Tenant, hop.Name{Name: "gone"}))[0]; got.Problem != nil {
		t.Fatal(got.Problem)
	}
	if got := f.Memory.Settings(owner, "gone").MaxAttempts; got != nil {
		t.Errorf("max_attempts of a deleted queue is %d", *got)
	}

	id := f.Submit()
	pause := func(paused bool) {
		calltest.One[api.Queue](f, hop.PauseQueue.Path, f.Tenant, hop.Pause{Name: api.DefaultQueue, Paused: paused})
	}
	pause(true)
	if !f.Memory.Settings(owner, api.DefaultQueue).Paused {
		t.Error("the pause is not known")
	}
	claimed := make(chan hop.Result[api.ClaimResponse], 1)
	go func() {
		claimed <- calltest.Ask[api.ClaimResponse](f, hop.ClaimJobs.Path, calltest.Item(f.Tenant, calltest.ClaimOf(25*time.Second)))[0]
	}()
	celltest.Eventually(t, "the claim to park", func() bool { return f.Memory.ParkedClaims() == 1 })
	idle(f)
	pause(false)
	if got := <-claimed; got.Value == nil || len(got.Value.Jobs) != 1 || got.Value.Jobs[0].ID != id {
		t.Errorf("the claim got %+v", got)
	}
}

// What makes or changes a schedule ends the sleep of the duty that works off ticks.
func TestAChangedScheduleKicksTheDuty(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	kicks := f.Memory.Engine.Publisher.Schedules
	kicked := func(what string) {
		t.Helper()
		select {
		case <-kicks:
		default:
			t.Errorf("%s kicks no duty", what)
		}
	}
	calltest.One[api.Schedule](f, hop.PutSchedule.Path, f.Tenant, hop.Put[api.ScheduleRequest]{Name: "s", Value: api.ScheduleRequest{
		EveryMS: new(time.Hour.Milliseconds()), Job: api.ScheduleJob{Type: "x"},
	}})
	kicked("a new schedule")
	for _, paused := range []bool{true, false} {
		calltest.One[api.Schedule](f, hop.PauseSchedule.Path, f.Tenant, hop.Pause{Name: "s", Paused: paused})
		kicked("a pause or its end")
	}
}

// A probe reaches the breaker of the destination at once.
func TestAProbeReachesTheBreaker(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	probed := map[string]int64{}
	f.Memory.Cached.Breakers.Show(
		func(tenant.QueueKey) *api.Breaker { return nil },
		func(key tenant.QueueKey, probes int64) { probed[key.Name] = probes },
	)
	calltest.One[api.Queue](f, hop.PutQueue.Path, f.Tenant, pushes())
	calltest.One[api.Queue](f, hop.ProbeQueue.Path, f.Tenant, hop.Name{Name: "hooks"})
	calltest.One[api.Webhook](f, hop.PutWebhook.Path, f.Tenant, hop.Put[api.WebhookRequest]{Name: "w", Value: api.WebhookRequest{
		URL: "https://example.com/hook", Events: []string{api.EventJobCompleted},
	}})
	calltest.One[api.Webhook](f, hop.ProbeWebhook.Path, f.Tenant, hop.Name{Name: "w"})
	if probed["hooks"] != 1 || probed[api.WebhookQueue("w")] != 1 {
		t.Errorf("probed: %v", probed)
	}
}
