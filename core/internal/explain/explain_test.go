package explain_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// why explains a job, and checks the codes of all reasons: "running_cap of queue", "in_line".
func (f *fixture) why(id uuid.UUID, codes ...string) api.Explanation {
	f.Helper()
	made, err := f.D.Explain(f.Context(), f.Tenant, "", id, false)
	if err != nil {
		f.Fatal(err)
	}
	var got []string
	for _, reason := range made.Because {
		if reason.Detail == "" || reason.Frees == "" {
			f.Errorf("%+v", reason)
		}
		if reason.Of != nil {
			reason.Code += " of " + *reason.Of
		}
		got = append(got, reason.Code)
	}
	if strings.Join(got, ", ") != strings.Join(codes, ", ") {
		f.Errorf("the reasons are %q, want %q: %+v", got, codes, made.Because)
	}
	if (made.Ahead != nil) != (made.State == api.StateQueued) {
		f.Errorf("%s: ahead %v", made.State, made.Ahead)
	}
	return made
}

func (f *fixture) pause(name string, paused bool) {
	f.Helper()
	if _, err := f.D.PauseQueue(f.Context(), f.Tenant, name, paused); err != nil {
		f.Fatal(err)
	}
	f.Refresh()
}

func (f *fixture) endAs(lease job.Lease, kind string) {
	f.Helper()
	if ended := f.D.End(f.Context(), []jobs.Ending{{Lease: lease, Kind: kind}})[0]; ended.Err != nil {
		f.Fatal(ended.Err)
	}
}

func TestWhyTimeAndParents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Claim(f.ClaimCall()) // a worker
	later := f.Submit(api.SubmitRequest{Type: "test", DelayMS: new(int64(3_600_000))})[0]
	if made := f.why(later, "time"); made.Because[0].Until == nil || time.Until(made.Because[0].Until.Time) < 50*time.Minute {
		t.Errorf("%+v", made.Because[0])
	}
	f.pause("default", true)
	f.why(later, "time", "paused")
	f.pause("default", false)
	f.Exec(`UPDATE jobs SET run_at = now() - interval '1 s' WHERE id = $1`, later)
	if _, err := f.Store.Jobs.Promote(t.Context(), jobs.AllTime, 10); err != nil {
		t.Fatal(err)
	}
	f.why(later, "in_line")

	parent := f.Claim(f.ClaimCall())[0]
	child := f.Submit(api.SubmitRequest{Type: "test", After: []api.Dependency{{JobID: parent.ID.String()}}})[0]
	if made := f.why(child, "parents"); *made.Because[0].Current != 1 || *made.Because[0].Limit != 1 {
		t.Errorf("%+v", made.Because[0])
	}
	tagged := f.Submit(api.SubmitRequest{Type: "test", Tags: []string{"gpu"}, After: []api.Dependency{{JobID: parent.ID.String()}}})[0]
	f.why(tagged, "parents", "tags")
	f.endAs(parent.Lease(), api.KindComplete)
	if _, _, err := f.D.FollowUp(t.Context(), f.Tenant); err != nil {
		t.Fatal(err)
	}
	f.why(child, "in_line")
}

// A waiting job names its signals and the time; one that waits for none sleeps.
func TestWhySignal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, names := range [][]string{{"approved", "rejected"}, nil} {
		f.Submit(enginetest.Plain())
		claimed := f.Claim(f.ClaimCall())[0]
		wait := jobs.Ending{Lease: claimed.Lease(), Kind: api.KindWait, Delay: time.Hour, Wait: &jobs.Wait{Names: names}}
		if ended := f.D.End(t.Context(), []jobs.Ending{wait})[0]; ended.Err != nil {
			t.Fatal(ended.Err)
		}
		why := f.why(claimed.ID, "signal").Because[0]
		if said := strings.Contains(why.Detail, strings.Join(names, ", ")) && strings.Contains(why.Detail, "sleeps") == (names == nil); !said || why.Until == nil || time.Until(why.Until.Time) < 50*time.Minute {
			t.Errorf("%q: %+v", names, why)
		}
	}
}

func TestWhyPausedCapAndRate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := enginetest.Request("ada")
	jobs := f.Submit(user, user)
	another := f.ClaimCall("elsewhere")
	another.WorkerID = "w0"
	f.Claim(another)
	f.pause("default", true)
	f.why(jobs[1], "paused", "no_worker")
	f.pause("default", false)
	one := new(int64(1))
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: one, UserMaxRunning: one}})
	f.Put("default", api.QueueRequest{MaxRunning: one, Types: api.TypeLimits{"test": {MaxRunning: one}}})
	var held job.Lease
	celltest.Eventually(t, "one to be claimed", func() bool {
		for _, taken := range f.Take(1) {
			held = taken.Lease()
		}
		return held.Job != uuid.Nil
	})
	other := jobs[0]
	if held.Job == other {
		other = jobs[1]
	}
	made := f.why(other, "running_cap of tenant", "running_cap of user", "running_cap of queue", "running_cap of type")
	for _, reason := range made.Because {
		if *reason.Limit != 1 || *reason.Current != 1 {
			t.Errorf("%+v", reason)
		}
	}
	f.endAs(held, api.KindComplete)
	f.why(other, "in_line")

	f.Put("default", api.QueueRequest{RatePerSecond: new(0.5), Types: api.TypeLimits{"test": {RatePerSecond: new(0.5)}}})
	f.Override(api.Overrides{})
	more := f.Submit(enginetest.Plain())[0]
	if taken := f.Take(2); len(taken) != 1 {
		t.Fatalf("%d started", len(taken))
	}
	if f.Get(more).State != api.StateQueued {
		more = other
	}
	made = f.why(more, "rate of queue", "rate of type")
	until := made.Because[0].Until.Time
	if left := time.Until(until); left < -time.Second || left > 3*time.Second {
		t.Errorf("it may start in %v", left)
	}
	celltest.Eventually(t, "the rate to allow a start", func() bool {
		made, err := f.D.Explain(t.Context(), f.Tenant, "", more, false)
		return err == nil && made.Because[0].Code == api.WhyInLine
	})
	if time.Now().Before(until.Add(-100 * time.Millisecond)) {
		t.Error("it may start before the time that was named")
	}
}

// The installation's own cap tells nothing of other tenants.
func TestWhyInstallationCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.D = f.NewCoreUnder(f.Store, 1)
	mine := f.Tenant
	jobs := f.Submit(enginetest.Plain())
	f.Tenant = f.NewTenant()
	f.Submit(enginetest.Plain())
	taken := f.Take(1)
	f.Tenant = mine
	f.Claim(f.ClaimCall())
	made := f.why(jobs[0], "running_cap of installation")
	if made.Because[0].Current != nil {
		t.Errorf("%+v", made.Because[0])
	}
	f.endAs(taken[0].Lease(), api.KindComplete)
	f.why(jobs[0], "in_line")
}

func TestWhyNoWorkerAndBreaker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(api.SubmitRequest{Type: "mail", Tags: []string{"smtp", "eu"}})[0]
	f.why(id, "no_worker")
	call := f.ClaimCall()
	call.Types = []string{"other"}
	f.Claim(call)
	if made := f.why(id, "no_worker"); !strings.Contains(made.Because[0].Detail, "type mail") {
		t.Errorf("%+v", made.Because[0])
	}
	call.WorkerID, call.Types, call.Tags = "w2", []string{"mail"}, &[]string{"smtp"}
	f.Claim(call)
	if made := f.why(id, "tags"); !strings.Contains(made.Because[0].Detail, "smtp, eu") && !strings.Contains(made.Because[0].Detail, "eu, smtp") {
		t.Errorf("%+v", made.Because[0])
	}
	call.WorkerID, call.Tags, call.Queues = "w3", &[]string{"smtp", "eu"}, []string{"default", "elsewhere"}
	f.Put("default", api.QueueRequest{MaxRunning: new(int64(0))}) // so that it only registers
	f.Claim(call)
	f.why(id, "running_cap of queue")
	f.Put("default", api.QueueRequest{})
	f.why(id, "in_line")

	pushed := f.Submit(enginetest.In("pushed"))[0]
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "pushed", api.QueueRequest{Push: &api.PushRequest{URL: "https://example.com"}}); err != nil {
		t.Fatal(err)
	}
	f.Refresh()
	breaker := api.Breaker{State: api.BreakerOpen, RetryAt: &api.Time{Time: time.Now().Add(time.Minute)}}
	f.D.ShowBreakers(func(tenant.QueueKey) *api.Breaker { return &breaker })
	if made := f.why(pushed, "breaker"); made.Because[0].Until == nil {
		t.Errorf("%+v", made.Because[0])
	}
	breaker.State = api.BreakerClosed
	f.why(pushed, "in_line")
}

func TestWhyInLineRunningAndEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Claim(f.ClaimCall())
	var jobs []uuid.UUID
	for _, priority := range []int{5, 5, 9, 0, 5} {
		jobs = append(jobs, f.Submit(api.SubmitRequest{Type: "test", Priority: &priority})...)
	}
	for i, want := range []int64{1, 2, 0, 4, 3} {
		if made := f.why(jobs[i], "in_line"); made.Ahead.Count != want || made.Ahead.Capped {
			t.Errorf("%+v are ahead of job %d, want %d", made.Ahead, i, want)
		}
	}
	other := f.Submit(api.SubmitRequest{Type: "other"})[0]
	if made := f.why(other, "in_line"); made.Ahead.Count != 0 {
		t.Errorf("jobs of another type are ahead: %+v", made.Ahead)
	}
	many := make([]api.SubmitRequest, 1000)
	for i := range many {
		many[i] = api.SubmitRequest{Type: "test", Priority: new(9)}
	}
	for range 11 {
		f.Accepted(f.D.Submit(t.Context(), []submits.Call{f.Call(many...)})...)
	}
	if made := f.why(jobs[3], "in_line"); made.Ahead.Count != api.MaxCountedAhead || !made.Ahead.Capped {
		t.Errorf("%+v", made.Ahead)
	}

	g := newFixture(t)
	taken := g.Submit(enginetest.Plain(), enginetest.Plain(), api.SubmitRequest{Type: "test", MaxAttempts: new(1)})
	leases := map[uuid.UUID]job.Lease{}
	for _, one := range g.Claim(g.ClaimCall()) {
		leases[one.ID] = one.Lease()
	}
	if made := g.why(taken[0], "running"); made.Because[0].Until == nil || !strings.Contains(made.Because[0].Detail, "w1") {
		t.Errorf("%+v", made.Because[0])
	}
	if _, _, err := g.D.Cancel(t.Context(), g.Tenant, "", taken[1]); err != nil {
		t.Fatal(err)
	}
	g.why(taken[1], "running", "cancel_requested")
	g.endAs(leases[taken[0]], api.KindComplete)
	g.endAs(leases[taken[1]], api.KindRelease)
	g.endAs(leases[taken[2]], api.KindFail)
	for i, state := range []string{api.StateCompleted, api.StateCancelled, api.StateDeadLetter} {
		if made := g.why(taken[i], "ended"); made.State != state {
			t.Errorf("%s, want %s", made.State, state)
		}
	}
	for _, who := range []struct {
		owner tenant.ID
		user  string
	}{{f.Tenant, ""}, {g.Tenant, "ada"}} {
		if _, err := g.D.Explain(t.Context(), who.owner, who.user, taken[0], false); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v: %v", who, err)
		}
	}
}

// A running job whose worker is stale or dead says so, with the last heartbeat and the end of the lease, until the worker
// is active again. Another worker of the same name, the platform's, does not matter.
func TestWhyWorkerStale(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(enginetest.Plain())[0]
	f.Claim(f.ClaimCall())
	silent := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	f.Exec(`INSERT INTO workers SELECT (jsonb_populate_record(w, jsonb_build_object('owner', $1::uuid, 'status', 'DEAD'))).* FROM workers w`, tenant.Platform)
	f.why(id, "running")
	for _, status := range []string{api.WorkerStale, api.WorkerDead} {
		f.Exec(`UPDATE workers SET status = $1, last_heartbeat_at = $2 WHERE owner = $3`, status, silent, f.Tenant)
		reason := f.why(id, "running", "worker_stale").Because[1]
		if want := "The worker w1 has sent no heartbeat since " + silent.UTC().Format(time.DateTime) + " UTC."; reason.Detail != want {
			t.Errorf("%s: %q, want %q", status, reason.Detail, want)
		}
		if lease := f.Get(id).LeaseExpiresAt; reason.Until == nil || lease == nil || !reason.Until.Equal(lease.Time) {
			t.Errorf("%s: until %v, and the lease until %v", status, reason.Until, lease)
		}
	}
	f.Exec(`UPDATE workers SET status = 'ACTIVE' WHERE owner = $1`, f.Tenant)
	f.why(id, "running")
}

// An explanation with details has the job as Get has it, with its parents, and its attempts.
func TestExplainWithDetails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(api.SubmitRequest{Type: "test"})
	parent := f.Claim(f.ClaimCall())[0]
	child := f.Submit(api.SubmitRequest{Type: "test", After: []api.Dependency{{JobID: parent.ID.String()}}})[0]
	for id, attempts := range map[uuid.UUID]int{parent.ID: 1, child: 0} {
		made, err := f.D.Explain(t.Context(), f.Tenant, "", id, true)
		if err != nil || made.Job == nil || made.Attempts == nil || len(made.Attempts) != attempts || len(made.Because) == 0 {
			t.Fatalf("%+v, %v", made, err)
		}
		job, err := f.Store.JobReads.Get(t.Context(), f.Tenant, "", id)
		if err != nil || !reflect.DeepEqual(job, *made.Job) {
			t.Errorf("the job is %+v, explained as %+v, %v", job, *made.Job, err)
		}
		if id == child && (len(job.After) != 1 || *job.BlockedBy != 1) {
			t.Errorf("the child is %+v", job)
		}
	}
	if made, err := f.D.Explain(t.Context(), f.Tenant, "", child, false); err != nil || made.Job != nil || made.Attempts != nil {
		t.Errorf("without details: %+v, %v", made, err)
	}
	if _, err := f.D.Explain(t.Context(), f.NewTenant(), "", child, true); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of another tenant: %v", err)
	}
}

// The explanation of a job that waits for others of its key names them.
func TestWhyKeys(t *testing.T) {
	t.Parallel()
	key := "k"
	like := api.SubmitRequest{Type: "test", Key: &key}
	f := newFixture(t)
	f.Take(1) // a worker
	f.Put("default", api.QueueRequest{Keys: &api.KeySettingsRequest{MaxRunning: new(int64(1))}})
	waits := f.Submit(like, like)[1]
	made := f.why(waits, "key_cap")
	if why := made.Because[0]; *why.Limit != 1 || *why.Current != 1 || made.Estimate != nil {
		t.Errorf("%+v", made)
	}
	f.Put("default", api.QueueRequest{Keys: &api.KeySettingsRequest{Order: new(api.KeyOrderFIFO), OnDead: new(api.KeyHold)}})
	f.Exec(`DELETE FROM jobs`)
	ids := f.Submit(like, like)
	made = f.why(ids[1], "key_order")
	if !strings.Contains(made.Because[0].Detail, ids[0].String()) {
		t.Errorf("%+v does not name the job before it", made.Because)
	}
	endings := enginetest.Endings(f.Take(1))
	endings[0].Kind, endings[0].Permanent, endings[0].Error = api.KindFail, true, &api.JobError{Type: "E"}
	if ended := f.Store.Jobs.End(t.Context(), endings); ended[0].Err != nil {
		t.Fatal(ended[0].Err)
	}
	made = f.why(ids[1], "key_order")
	if !strings.Contains(made.Because[0].Detail, "dead letter "+ids[0].String()) {
		t.Errorf("%+v does not name the dead letter", made.Because)
	}
	f.Put("default", api.QueueRequest{Keys: &api.KeySettingsRequest{RatePerSecond: new(0.01)}})
	f.Exec(`DELETE FROM jobs`)
	waits = f.Submit(like, like)[1]
	if err := f.D.PassGates(t.Context(), f.Tenant); err != nil {
		t.Fatal(err)
	}
	if made = f.why(waits, "key_rate"); made.Because[0].Until == nil {
		t.Errorf("%+v", made)
	}
}
