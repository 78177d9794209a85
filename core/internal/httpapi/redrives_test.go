package httpapi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// bury makes a dead letter of a user, or of none.
func (f *fixture) bury(user string) string {
	f.Helper()
	id := decode[api.SubmitResponse](f, one[json.RawMessage](f, hop.SubmitJobs.Path, f.tenant, job(func(s *api.SubmitRequest) {
		if user != "" {
			s.User = &user
		}
	}))).ID
	claimed := f.claim()
	f.outcome(f.tenant, api.OutcomeRequest{JobID: claimed.ID, Kind: api.KindFail, LeaseToken: claimed.LeaseToken, Permanent: true, Error: &api.JobError{Type: "T", Message: "m"}})
	return id
}

func byFilter(f *fixture, p hop.Principal, path string, dry bool) json.RawMessage {
	f.Helper()
	return one[json.RawMessage](f, path, p, api.DeadLetterRequest{Filter: &api.DeadLetterFilterBody{}, DryRun: dry})
}

func TestRedriveByFilter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := f.tenant
	key.KeyID = "the-key"
	for _, user := range []string{"", "bob", "bob", "eve"} {
		f.bury(user)
	}
	bob, other := userOf(key, "bob"), f.newTenant()
	for _, test := range []struct {
		who  hop.Principal
		want int64
	}{{key, 4}, {bob, 2}, {userOf(key, "nobody"), 0}, {other, 0}} {
		if got := decode[api.Matched](f, byFilter(f, test.who, hop.RedriveDeadLetters.Path, true)); got.Matched != test.want {
			t.Errorf("%+v: %+v", test.who, got)
		}
		groups := one[api.DeadLetterGroups](f, hop.GroupDeadLetters.Path, test.who, hop.Filtered[api.DeadLetterFilter]{})
		if (len(groups.Items) == 1) != (test.want > 0) || test.want > 0 && groups.Items[0].Count != test.want {
			t.Errorf("%+v: %+v", test.who, groups)
		}
	}
	redriver := sweep.New(f.store, f.d.Engine, metrics.NewJobs(prometheus.NewRegistry()), f.logger).Redrives()
	bobs := decode[api.Redrive](f, byFilter(f, bob, hop.RedriveDeadLetters.Path, false))
	all := decode[api.Redrive](f, byFilter(f, key, hop.DiscardDeadLetters.Path, false))
	for _, made := range []api.Redrive{bobs, all} {
		celltest.Eventually(f, "the end of a redrive", func() bool {
			if _, err := redriver.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			return one[api.Redrive](f, hop.GetRedrive.Path, key, hop.ID{ID: made.ID}).State == api.RedriveDone
		})
	}
	// Whose turn came first is not settled: together they had all four.
	ended := one[api.Page[api.Redrive]](f, hop.ListRedrives.Path, key, hop.PageRequest{PageSize: 1})
	if ended.NextPageToken == nil || ended.Items[0].ID != all.ID {
		t.Errorf("first page %+v", ended)
	}
	rest := one[api.Page[api.Redrive]](f, hop.ListRedrives.Path, key, hop.PageRequest{PageSize: 1, PageToken: *ended.NextPageToken})
	if len(rest.Items) != 1 || rest.Items[0].Done+ended.Items[0].Done != 4 || rest.Items[0].Done > 2 {
		t.Errorf("pages %+v %+v", ended, rest)
	}
	for _, stranger := range []hop.Principal{other, userOf(key, "eve")} {
		for _, path := range []string{hop.GetRedrive.Path, hop.CancelRedrive.Path} {
			for _, id := range []string{bobs.ID, uuid.NewString(), "nonsense"} {
				if got := ask[api.Redrive](f, path, item(stranger, hop.ID{ID: id}))[0]; got.Problem == nil || got.Problem.Code != problem.NotFound {
					t.Errorf("%s of %s: %+v", path, id, got)
				}
			}
		}
		if got := one[api.Page[api.Redrive]](f, hop.ListRedrives.Path, stranger, hop.PageRequest{}); len(got.Items) != 0 {
			t.Errorf("a stranger sees %+v", got)
		}
	}
}

// A dry run says how large the sample would be; core refuses what the gateway would have refused.
func TestRedriveWithACanary(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		f.bury("")
	}
	request := func(count int, success float64, change ...func(*api.DeadLetterRequest)) api.DeadLetterRequest {
		r := api.DeadLetterRequest{Filter: &api.DeadLetterFilterBody{}, Canary: &api.CanaryRequest{Count: count, Success: success}}
		for _, do := range change {
			do(&r)
		}
		return r
	}
	dry := func(r *api.DeadLetterRequest) { r.DryRun = true }
	for count, want := range map[int]int64{2: 2, 20: 3} {
		got := decode[api.Matched](f, one[json.RawMessage](f, hop.RedriveDeadLetters.Path, f.tenant, request(count, 0.9, dry)))
		if got.Matched != 3 || got.Sample == nil || *got.Sample != want {
			t.Errorf("%d: %+v", count, got)
		}
	}
	for name, bad := range map[string]struct {
		path    string
		request api.DeadLetterRequest
	}{
		"a discard":  {hop.DiscardDeadLetters.Path, request(2, 0.9)},
		"no count":   {hop.RedriveDeadLetters.Path, request(0, 0.9)},
		"no success": {hop.RedriveDeadLetters.Path, request(2, 0)},
	} {
		if got := ask[json.RawMessage](f, bad.path, item(f.tenant, bad.request))[0]; got.Problem == nil || got.Problem.Code != problem.InvalidRequest {
			t.Errorf("%s: %+v", name, got)
		}
	}
	redriver := sweep.New(f.store, f.d.Engine, metrics.NewJobs(prometheus.NewRegistry()), f.logger).Redrives()
	made := decode[api.Redrive](f, one[json.RawMessage](f, hop.RedriveDeadLetters.Path, f.tenant, request(1, 1)))
	celltest.Eventually(f, "the sample to be queued", func() bool {
		if _, err := redriver.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := one[api.Redrive](f, hop.GetRedrive.Path, f.tenant, hop.ID{ID: made.ID})
		return now.Canary.State == api.CanaryWaiting && now.Canary.Waiting == 1 && now.Done == 1
	})
	if found := one[api.Installation](f, hop.GetInstallation.Path, operator(), struct{}{}); len(found.Redrives) != 1 || found.Redrives[0].Canary == nil {
		t.Errorf("%+v", found.Redrives)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := f.tenant
	key.KeyID = "the-key"
	id := f.bury("")
	one[api.JobSummary](f, hop.RedriveJob.Path, key, hop.ID{ID: id})
	weight := 2
	one[api.Tenant](f, hop.PatchTenant.Path, operator(), hop.WithID[api.TenantPatch]{ID: key.Tenant, Value: api.TenantPatch{Weight: &weight}})
	one[api.Plan](f, hop.PutPlan.Path, operator(), hop.Put[api.PlanRequest]{Name: "p"})
	own := one[api.Page[api.AuditEntry]](f, hop.ListAudit.Path, key, hop.Filtered[api.AuditFilter]{})
	if len(own.Items) != 2 || own.Items[0].Action != api.AuditTenantPatch || own.Items[0].Actor.Kind != "operator" ||
		own.Items[1].Action != api.AuditRedrive || *own.Items[1].Object != id || *own.Items[1].Actor.KeyID != "the-key" {
		t.Errorf("own entries %+v", own)
	}
	for _, test := range []struct {
		who    hop.Principal
		filter api.AuditFilter
		want   int
	}{
		{operator(), api.AuditFilter{}, 3},
		{operator(), api.AuditFilter{Tenant: key.Tenant}, 2},
		{operator(), api.AuditFilter{Action: api.AuditPlanPut}, 1},
		{f.newTenant(), api.AuditFilter{Tenant: key.Tenant}, 0},
		{key, api.AuditFilter{Before: &api.Time{Time: time.Unix(0, 0)}}, 0},
	} {
		if got := one[api.Page[api.AuditEntry]](f, hop.ListAudit.Path, test.who, hop.Filtered[api.AuditFilter]{Filter: test.filter}); len(got.Items) != test.want {
			t.Errorf("%+v %+v: %d entries, want %d", test.who, test.filter, len(got.Items), test.want)
		}
	}
	for _, who := range []hop.Principal{userOf(key, "bob"), platform()} {
		if got := ask[api.Page[api.AuditEntry]](f, hop.ListAudit.Path, item(who, hop.Filtered[api.AuditFilter]{}))[0]; got.Problem == nil || got.Problem.Code != problem.Forbidden {
			t.Errorf("%+v: %+v", who, got)
		}
	}
}
