package claims_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Workers of the platform divide their time among two tenants, one whose attempts take 1 s, one whose take 10 s; or, if
// that is set, their jobs.
func TestThePlatformsSharesAreOfTime(t *testing.T) {
	t.Parallel()
	for name, byJobs := range map[string]bool{"time": false, "jobs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.D = f.NewCoreWith(engine.Options{Store: celltest.OpenURL(t, f.URL), FairByJobs: byJobs})
			slow := f.NewTenant()
			for _, owner := range []tenant.ID{f.Tenant, slow} {
				many := make([]api.SubmitRequest, 300)
				for i := range many {
					many[i] = enginetest.Plain()
				}
				call := f.Call(many...)
				call.Tenant = owner
				f.Accepted(f.D.Submit(t.Context(), []submits.Call{call})...)
			}
			call := f.ClaimCall(api.DefaultQueue)
			call.Owner, call.Max = tenant.Platform, 11
			started := map[tenant.ID]int{}
			for round := range 20 {
				found := f.Claim(call)
				if len(found) != call.Max {
					t.Fatalf("round %d: %d jobs, want %d", round, len(found), call.Max)
				}
				if round >= 4 { // by then it is known how long they take
					for i := range found {
						started[found[i].TenantID]++
					}
				}
				f.Exec(`UPDATE jobs SET started_at = started_at - CASE WHEN tenant_id = $1 THEN interval '10 s' ELSE interval '1 s' END WHERE state = 'running'`, slow)
				f.end(found)
			}
			quick, long := started[f.Tenant], started[slow]
			if ratio := float64(quick) / float64(max(long, 1)); byJobs && (ratio < 0.9 || ratio > 1.1) || !byJobs && (ratio < 7 || ratio > 13) {
				t.Errorf("%d jobs of 1 s and %d of 10 s started", quick, long)
			}
		})
	}
}

// end completes jobs.
func (f *fixture) end(found []claim.Job) {
	f.Helper()
	endings := make([]jobs.Ending, len(found))
	for i := range found {
		endings[i] = jobs.Ending{Lease: found[i].Lease(), Kind: api.KindComplete}
	}
	for _, ended := range f.D.End(f.Context(), endings) {
		if ended.Err != nil {
			f.Fatal(ended.Err)
		}
	}
}
