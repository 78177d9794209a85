package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// capped makes core tell caps: the tenant's and, where it is asked, a user's.
func (d *door) capped() {
	d.core.On(hop.ListCaps.Path, func(item coretest.Item) coretest.Result {
		caps := []api.CapUse{{Scope: "tenant", Kind: "active", Limit: 100, Used: 7}}
		if last := new(hop.CapsRequest); json.Unmarshal(item.Request, last) == nil && last.User != "" {
			caps = append(caps, api.CapUse{Scope: "user", Kind: "running", Limit: 3, Used: 1})
		}
		return coretest.Value(200, hop.CapsResponse{Caps: caps})
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.capped()
	d.accept()
	plan := api.Limits{JobsPerSecond: new(slowly), JobBurst: new(int64(50)), UserJobsPerSecond: new(5.0), UserJobBurst: new(int64(10))}
	overrides := &api.Overrides{Users: map[string]api.Limits{"bob": {JobsPerSecond: new(slowly), JobBurst: new(int64(20))}}}
	withOverrides := func(k *hop.KeyRecord) { k.Overrides = overrides }
	unbound, bob := d.limited(plan, withOverrides), d.limited(plan, withOverrides, boundTo("bob"))
	if got := d.do("POST", "/v1/jobs", bob, `{"type":"a"}`); got.status != 202 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	const tenantCap = `{"scope":"tenant","kind":"active","limit":100,"used":7}`
	const userCap = `,{"scope":"user","kind":"running","limit":3,"used":1}`
	tenantPolicy := api.PolicyUse{Name: "tenant-jobs", RatePerSecond: slowly, Burst: 50, Remaining: 49}
	bobPolicy := api.PolicyUse{Name: "user-jobs", RatePerSecond: slowly, Burst: 20, Remaining: 19}
	annPolicy := api.PolicyUse{Name: "user-jobs", RatePerSecond: 5, Burst: 10, Remaining: 10}
	for range 20 { // asking costs nothing
		for _, test := range []struct {
			key, query string
			policies   []api.PolicyUse
			caps       string
		}{
			{unbound, "", []api.PolicyUse{tenantPolicy}, tenantCap},
			{unbound, "?user=bob", []api.PolicyUse{tenantPolicy, bobPolicy}, tenantCap + userCap},
			{unbound, "?user=ann", []api.PolicyUse{tenantPolicy, annPolicy}, tenantCap + userCap},
			{bob, "", []api.PolicyUse{tenantPolicy, bobPolicy}, tenantCap + userCap},
			{bob, "?user=bob", []api.PolicyUse{tenantPolicy, bobPolicy}, tenantCap + userCap},
		} {
			got := d.do("GET", "/v1/limits"+test.query, test.key, "")
			var document map[string]json.RawMessage
			var answer api.LimitsResponse
			if json.Unmarshal(got.body, &document) != nil || json.Unmarshal(got.body, &answer) != nil || got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			if string(document["caps"]) != "["+test.caps+"]" {
				t.Errorf("caps %s", document["caps"])
			}
			for i, policy := range answer.Policies {
				if missing := policy.Burst - policy.Remaining; policy.ResetMS > missing*1_000_000 || (missing > 0 && policy.ResetMS < missing*900_000) {
					t.Errorf("%+v: reset", policy)
				}
				answer.Policies[i].ResetMS = 0
			}
			if diff := cmp.Diff(test.policies, answer.Policies); diff != "" {
				t.Errorf("%s: %s", test.query, diff)
			}
			if !strings.HasPrefix(got.header.Get("RateLimit"), `"tenant-jobs";r=49;`) {
				t.Errorf("RateLimit %s", got.header.Get("RateLimit"))
			}
		}
	}
	d.do("GET", "/v1/limits?user=ann", bob, "").refused(t, 403, problem.Forbidden)
	d.do("GET", "/v1/limits?user=", unbound, "").refused(t, 400, problem.InvalidRequest)
	d.do("GET", "/v1/limits", d.platformKey(), "").refused(t, 403, problem.Forbidden)
	if got := d.do("GET", "/v1/limits", d.keyWith(func(*hop.KeyRecord) {}), ""); got.status != 200 || !strings.HasPrefix(string(got.body), `{"policies":[],"caps":[`+tenantCap+`],"shared_time":{"gateway":`) {
		t.Errorf("a key without scopes or plan: %d %s", got.status, got.body)
	}
	d.core.On(hop.ListCaps.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, hop.CapsResponse{Database: 0.25}) })
	if got := d.do("GET", "/v1/limits", d.key(), ""); !strings.HasPrefix(string(got.body), `{"policies":[],"caps":[],"shared_time":{"gateway":0`) || !strings.HasSuffix(string(got.body), `,"database":0.25}}`) {
		t.Errorf("without caps: %s", got.body)
	}
	d.core.On(hop.ListCaps.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.CoreUnavailable, "away") })
	if got := d.do("GET", "/v1/limits", bob, ""); got.header.Get("Retry-After") == "" || got.header.Get("RateLimit") == "" {
		t.Errorf("core is away: %d %v", got.status, got.header)
	} else {
		got.refused(t, 503, problem.CoreUnavailable)
	}
}

// Limits that are changed through this gateway hold at once.
func TestChangedLimitsHoldAtOnce(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.capped()
	burst := func(key string) int64 {
		t.Helper()
		var answer api.LimitsResponse
		if got := d.do("GET", "/v1/limits", key, ""); json.Unmarshal(got.body, &answer) != nil || len(answer.Policies) != 1 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return answer.Policies[0].Burst
	}
	var known hop.KeyRecord
	key := d.limited(api.Limits{JobsPerSecond: new(1.0), JobBurst: new(int64(10))}, func(k *hop.KeyRecord) { known = *k })
	known.Scopes = api.Scopes()
	if got := burst(key); got != 10 {
		t.Fatalf("burst %d", got)
	}
	d.core.On(hop.PatchTenant.Path, func(coretest.Item) coretest.Result {
		known.Overrides = &api.Overrides{Limits: api.Limits{JobBurst: new(int64(20))}}
		known.Plan = &api.Plan{Name: "p", Limits: api.Limits{JobsPerSecond: new(1.0)}}
		d.core.AddKey(known)
		return coretest.Value(200, api.Tenant{})
	})
	if got := d.do("PATCH", "/v1/admin/tenants/"+tenantID, operatorKey, `{"overrides":{"job_burst":20}}`); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := burst(key); got != 20 {
		t.Errorf("after the tenant's change: burst %d", got)
	}
	d.core.On(hop.PutPlan.Path, func(coretest.Item) coretest.Result {
		known.Plan, known.Overrides = &api.Plan{Name: "p", Limits: api.Limits{JobsPerSecond: new(1.0), JobBurst: new(int64(30))}}, nil
		d.core.AddKey(known)
		return coretest.Value(200, api.Plan{})
	})
	if got := d.do("PUT", "/v1/admin/plans/p", operatorKey, `{"limits":{"jobs_per_second":1,"job_burst":30}}`); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := burst(key); got != 30 {
		t.Errorf("after the plan's change: burst %d", got)
	}
}
