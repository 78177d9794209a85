package operations_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Every way in which a job gets a time kicks the duty that waits for it: the duty sleeps for longer than anybody may wait.
func TestWhatGetsATimeKicksItsDuty(t *testing.T) {
	t.Parallel()
	const hour = int64(3_600_000)
	soon := func() *api.Time { return &api.Time{Time: time.Now().Add(time.Hour)} }
	submit := func(f *calltest.Core, change func(*api.SubmitRequest)) string {
		return calltest.Decode[api.SubmitResponse](f, calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(change))).ID
	}
	delayed := func(s *api.SubmitRequest) { s.DelayMS = new(hour) }
	expiring := func(s *api.SubmitRequest) { s.ExpiresAfterMS = new(hour) }
	plain := func(*api.SubmitRequest) {}
	outcome := func(f *calltest.Core, of api.ClaimedJob, change func(*api.OutcomeRequest)) {
		request := api.OutcomeRequest{JobID: of.ID, LeaseToken: of.LeaseToken}
		change(&request)
		if result := f.Outcome(f.Tenant, request); result.Problem != nil {
			f.Fatal(result.Problem)
		}
	}
	ends := func(change func(*api.OutcomeRequest)) func(*calltest.Core) func() {
		return func(f *calltest.Core) func() {
			submit(f, plain)
			held := f.Claim()
			return func() { outcome(f, held, change) }
		}
	}
	patches := func(patch api.JobPatch) func(*calltest.Core) func() {
		return func(f *calltest.Core) func() {
			id := submit(f, plain)
			return func() {
				calltest.One[api.Job](f, hop.PatchJob.Path, f.Tenant, hop.PatchJobRequest{ID: id, Patch: patch})
			}
		}
	}
	submits := func(change func(*api.SubmitRequest)) func(*calltest.Core) func() {
		return func(f *calltest.Core) func() { return func() { submit(f, change) } }
	}
	duties := func(f *calltest.Core) sweep.Duties {
		return sweep.New(f.Store, f.Memory.Engine, metrics.NewJobs(prometheus.NewRegistry()), f.Logger)
	}
	runs := func(f *calltest.Core, duty *sweep.Duty) {
		if _, err := duty.RunOnce(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
	scheduled := func(p *publish.Publisher) publish.Kick { return p.Scheduled }
	deadlines := func(p *publish.Publisher) publish.Kick { return p.Deadlines }
	redrives := func(p *publish.Publisher) publish.Kick { return p.Redrives }
	leased := func(p *publish.Publisher) publish.Kick { return p.Leased }
	for name, of := range map[string]struct {
		kick func(*publish.Publisher) publish.Kick
		// given makes what is needed, and returns what is to kick.
		given func(*calltest.Core) func()
	}{
		"a submit with a delay":    {scheduled, submits(delayed)},
		"a submit with a deadline": {deadlines, submits(func(s *api.SubmitRequest) { s.Deadline = soon() })},
		"a submit that expires":    {deadlines, submits(expiring)},
		"a retry": {scheduled, ends(func(o *api.OutcomeRequest) {
			o.Kind, o.Error = api.KindFail, &api.JobError{Type: "T", Message: "m"}
		})},
		"a snooze": {scheduled, ends(func(o *api.OutcomeRequest) { o.Kind, o.DelayMS = api.KindSnooze, new(hour) })},
		"a wait for signals": {scheduled, ends(func(o *api.OutcomeRequest) {
			o.Kind, o.For, o.TimeoutMS = api.KindWait, []string{"go"}, new(hour)
		})},
		"a delayed job submitted with a completion": {scheduled, ends(func(o *api.OutcomeRequest) {
			o.Kind, o.Submit = api.KindComplete, []api.SubmitRequest{{Type: "test", DelayMS: new(hour)}}
		})},
		"an expiring job submitted with a completion": {deadlines, ends(func(o *api.OutcomeRequest) {
			o.Kind, o.Submit = api.KindComplete, []api.SubmitRequest{{Type: "test", ExpiresAfterMS: new(hour)}}
		})},
		"a patch of run_at":   {scheduled, patches(api.JobPatch{RunAt: soon()})},
		"a patch of deadline": {deadlines, patches(api.JobPatch{Deadline: soon()})},
		"a replacement that expires": {deadlines, func(f *calltest.Core) func() {
			keyed := func(s *api.SubmitRequest) { s.Dedupe = &api.Dedupe{Key: "k", OnLive: api.OnLiveReplace} }
			submit(f, keyed)
			return func() {
				submit(f, func(s *api.SubmitRequest) { keyed(s); expiring(s) })
			}
		}},
		"a job whose parent ended": {scheduled, func(f *calltest.Core) func() {
			parent := submit(f, plain)
			submit(f, func(s *api.SubmitRequest) { delayed(s); s.After = []api.Dependency{{JobID: parent}} })
			outcome(f, f.Claim(), func(o *api.OutcomeRequest) { o.Kind = api.KindComplete })
			return func() { runs(f, duties(f).FollowUps()) }
		}},
		"a redrive of a job with a deadline": {deadlines, func(f *calltest.Core) func() {
			id := submit(f, expiring)
			outcome(f, f.Claim(), func(o *api.OutcomeRequest) {
				o.Kind, o.Permanent, o.Error = api.KindFail, true, &api.JobError{Type: "T", Message: "m"}
			})
			return func() {
				calltest.One[json.RawMessage](f, hop.RedriveDeadLetters.Path, f.Tenant, api.DeadLetterRequest{IDs: []string{id}})
			}
		}},
		"a lease that ended late, with a backoff": {scheduled, func(f *calltest.Core) func() {
			submit(f, func(s *api.SubmitRequest) { s.TimeoutMS = new(int64(1000)) })
			f.Claim()
			f.Exec(`UPDATE jobs SET started_at = started_at - interval '1 minute', lease_expires_at = statement_timestamp() - interval '1 ms', visibility_timeout_ms = 0`)
			return func() {
				reap, _ := duties(f).Reap()
				runs(f, reap)
			}
		}},
		"a redrive by filter": {redrives, func(f *calltest.Core) func() {
			f.Bury("")
			return func() { byFilter(f, f.Tenant, hop.RedriveDeadLetters.Path, false) }
		}},
		"a bulk action": {redrives, func(f *calltest.Core) func() {
			return func() {
				calltest.One[json.RawMessage](f, hop.CreateBulk.Path, f.Tenant, api.BulkRequest{Action: api.BulkCancel, Filter: api.BulkFilter{Queue: new("default")}})
			}
		}},
		"a bulk action that delays": {scheduled, func(f *calltest.Core) func() {
			submit(f, plain)
			calltest.One[json.RawMessage](f, hop.CreateBulk.Path, f.Tenant, api.BulkRequest{
				Action: api.BulkDelay, Filter: api.BulkFilter{Queue: new("default")}, To: &api.BulkTarget{DelayMS: new(hour)},
			})
			return func() { runs(f, duties(f).Redrives()) }
		}},
		"a rerun that expires": {deadlines, func(f *calltest.Core) func() {
			id := submit(f, plain)
			outcome(f, f.Claim(), func(o *api.OutcomeRequest) { o.Kind = api.KindComplete })
			return func() {
				calltest.One[json.RawMessage](f, hop.RerunJob.Path, f.Tenant, rerunOf(id, expiring))
			}
		}},
		"the deletion of a tenant": {func(p *publish.Publisher) publish.Kick { return p.Deleted }, func(f *calltest.Core) func() {
			gone := f.NewTenant()
			return func() {
				calltest.One[api.Tenant](f, hop.DeleteTenant.Path, calltest.Operator(), hop.ID{ID: gone.Tenant})
			}
		}},
		"a claim": {leased, func(f *calltest.Core) func() {
			submit(f, plain)
			return func() { f.Claim() }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := calltest.New(t)
			act := of.given(f)
			kick := of.kick(f.Memory.Publisher)
			for len(kick) > 0 {
				<-kick
			}
			act()
			celltest.Eventually(f, "the kick", func() bool { return len(kick) == 1 })
		})
	}
}
