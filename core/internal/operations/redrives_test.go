package operations_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func byFilter(f *calltest.Core, p hop.Principal, path string, dry bool) json.RawMessage {
	f.Helper()
	return calltest.One[json.RawMessage](f, path, p, api.DeadLetterRequest{Filter: &api.DeadLetterFilterBody{}, DryRun: dry})
}

func TestRedriveByFilter(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	key := f.Tenant
	key.KeyID = "the-key"
	for _, user := range []string{"", "bob", "bob", "eve"} {
		f.Bury(user)
	}
	bob, other := calltest.UserOf(key, "bob"), f.NewTenant()
	for _, test := range []struct {
		who  hop.Principal
		want int64
	}{{key, 4}, {bob, 2}, {calltest.UserOf(key, "nobody"), 0}, {other, 0}} {
		if got := calltest.Decode[api.Matched](f, byFilter(f, test.who, hop.RedriveDeadLetters.Path, true)); got.Matched != test.want {
			t.Errorf("%+v: %+v", test.who, got)
		}
		groups := calltest.One[api.DeadLetterGroups](f, hop.GroupDeadLetters.Path, test.who, hop.Filtered[api.DeadLetterFilter]{})
		if (len(groups.Items) == 1) != (test.want > 0) || test.want > 0 && groups.Items[0].Count != test.want {
			t.Errorf("%+v: %+v", test.who, groups)
		}
	}
	redriver := sweep.New(f.Store, f.Memory.Engine, metrics.NewJobs(prometheus.NewRegistry()), f.Logger).Redrives()
	bobs := calltest.Decode[api.Redrive](f, byFilter(f, bob, hop.RedriveDeadLetters.Path, false))
	all := calltest.Decode[api.Redrive](f, byFilter(f, key, hop.DiscardDeadLetters.Path, false))
	for _, made := range []api.Redrive{bobs, all} {
		celltest.Eventually(f, "the end of a redrive", func() bool {
			if _, err := redriver.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			return calltest.One[api.Redrive](f, hop.GetRedrive.Path, key, hop.ID{ID: made.ID}).State == api.RedriveDone
		})
	}
	// Whose turn came first is not settled: together they had all four.
	ended := calltest.One[api.Page[api.Redrive]](f, hop.ListRedrives.Path, key, hop.PageRequest{PageSize: 1})
	if ended.NextPageToken == nil || ended.Items[0].ID != all.ID {
		t.Errorf("first page %+v", ended)
	}
	rest := calltest.One[api.Page[api.Redrive]](f, hop.ListRedrives.Path, key, hop.PageRequest{PageSize: 1, PageToken: *ended.NextPageToken})
	if len(rest.Items) != 1 || rest.Items[0].Done+ended.Items[0].Done != 4 || rest.Items[0].Done > 2 {
		t.Errorf("pages %+v %+v", ended, rest)
	}
	for _, stranger := range []hop.Principal{other, calltest.UserOf(key, "eve")} {
		for _, path := range []string{hop.GetRedrive.Path, hop.CancelRedrive.Path} {
			for _, id := range []string{bobs.ID, uuid.NewString(), "nonsense"} {
				if got := calltest.Ask[api.Redrive](f, path, calltest.Item(stranger, hop.ID{ID: id}))[0]; got.Problem == nil || got.Problem.Code != problem.NotFound {
					t.Errorf("%s of %s: %+v", path, id, got)
				}
			}
		}
		if got := calltest.One[api.Page[api.Redrive]](f, hop.ListRedrives.Path, stranger, hop.PageRequest{}); len(got.Items) != 0 {
			t.Errorf("a stranger sees %+v", got)
		}
	}
}

// A dry run says how large the sample would be; core refuses what the gateway would have refused.
func TestRedriveWithACanary(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	for range 3 {
		f.Bury("")
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
		got := calltest.Decode[api.Matched](f, calltest.One[json.RawMessage](f, hop.RedriveDeadLetters.Path, f.Tenant, request(count, 0.9, dry)))
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
		if got := calltest.Ask[json.RawMessage](f, bad.path, calltest.Item(f.Tenant, bad.request))[0]; got.Problem == nil || got.Problem.Code != problem.InvalidRequest {
			t.Errorf("%s: %+v", name, got)
		}
	}
	redriver := sweep.New(f.Store, f.Memory.Engine, metrics.NewJobs(prometheus.NewRegistry()), f.Logger).Redrives()
	made := calltest.Decode[api.Redrive](f, calltest.One[json.RawMessage](f, hop.RedriveDeadLetters.Path, f.Tenant, request(1, 1)))
	celltest.Eventually(f, "the sample to be queued", func() bool {
		if _, err := redriver.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := calltest.One[api.Redrive](f, hop.GetRedrive.Path, f.Tenant, hop.ID{ID: made.ID})
		return now.Canary.State == api.CanaryWaiting && now.Canary.Waiting == 1 && now.Done == 1
	})
	if found := calltest.One[api.Installation](f, hop.GetInstallation.Path, calltest.Operator(), struct{}{}); len(found.Redrives) != 1 || found.Redrives[0].Canary == nil {
		t.Errorf("%+v", found.Redrives)
	}
}
