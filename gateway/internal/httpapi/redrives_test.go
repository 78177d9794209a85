package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestSettleByFilter(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("manage")
	for verb, op := range map[string]string{"redrive": hop.RedriveDeadLetters.Path, "discard": hop.DiscardDeadLetters.Path} {
		path := "/v1/dead-letters/" + verb
		d.core.On(op, func(coretest.Item) coretest.Result {
			return coretest.Value(200, api.Redrive{ID: jobID, Action: verb, State: api.RedriveRunning, Matched: 7})
		})
		got := d.do("POST", path, key, `{"filter":{"queue":"q","reason":"permanent","fingerprint":"0F","after":"2026-11-20T12:00:00Z"},"rate_per_second":500}`)
		if got.status != 202 || !strings.HasPrefix(string(got.body), `{"id":"`+jobID+`","action":"`+verb+`","filter":{},"rate_per_second":null,"state":"running","matched":7,`) {
			t.Errorf("%s: status %d %s", verb, got.status, got.body)
		}
		rate := 500.0
		q, reason, cause := "q", "permanent", "0F"
		want := api.DeadLetterRequest{RatePerSecond: &rate, Filter: &api.DeadLetterFilterBody{
			Queue: &q, Reason: &reason, Fingerprint: &cause, After: at("2026-11-20T12:00:00Z"),
		}}
		if diff := cmp.Diff(want, last[api.DeadLetterRequest](d, op)); diff != "" {
			t.Errorf("%s: core got %s", verb, diff)
		}
		d.core.On(op, func(coretest.Item) coretest.Result { return coretest.Value(200, api.Matched{Matched: 7}) })
		if got := d.do("POST", path, key, `{"filter":{},"dry_run":true}`); got.status != 200 || string(got.body) != `{"matched":7,"matched_capped":false}` {
			t.Errorf("%s: dry run: status %d %s", verb, got.status, got.body)
		}
		before := len(d.core.Requests(op))
		for body, field := range map[string]string{
			`{"filter":{"queue":["q"]}}`:                   "filter.queue",
			`{"filter":{"after":"yesterday"}}`:             "filter.after",
			`{"filter":{"before":"9999-01-01T00:00:00Z"}}`: "filter.before",
			`{"filter":{"user":"bob"}}`:                    "filter.user",
			`{"filter":{"tenant":"t"}}`:                    "filter.tenant",
			`{"filter":[]}`:                                "filter",
			`{"filter":"all"}`:                             "filter",
			`{"filter":{},"ids":["x"]}`:                    "ids",
			`{"filter":{},"ids":[]}`:                       "ids",
			`{"ids":["x"],"rate_per_second":1}`:            "rate_per_second",
			`{"filter":{},"rate_per_second":10001}`:        "rate_per_second",
			`{"filter":{},"rate_per_second":"fast"}`:       "rate_per_second",
			`{"filter":{},"dry_run":"yes"}`:                "dry_run",
			`{"filter":{"queue":"q","queue":"r"}}`:         "filter.queue",
		} {
			got := d.do("POST", path, key, body)
			if got.status != 400 || !strings.Contains(string(got.body), `"field":"`+field+`"`) {
				t.Errorf("%s %.80s: status %d %s", verb, body, got.status, got.body)
			}
		}
		if n := len(d.core.Requests(op)); n != before {
			t.Errorf("%s: bad requests reached core", verb)
		}
	}
}

func TestRedriveWithACanary(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("manage")
	d.core.On(hop.RedriveDeadLetters.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Redrive{ID: jobID, Canary: &api.Canary{Count: 20, Success: 0.9, State: api.CanarySampling}})
	})
	got := d.do("POST", "/v1/dead-letters/redrive", key, `{"filter":{},"canary":{"count":20,"success":0.9,"timeout_seconds":60}}`)
	if got.status != 202 || !strings.Contains(string(got.body), `"canary":{"count":20,"success":0.9,"timeout_seconds":0,"state":"sampling","sampled":0,`) {
		t.Errorf("status %d %s", got.status, got.body)
	}
	want := &api.CanaryRequest{Count: 20, Success: 0.9, TimeoutSeconds: new(60)}
	if diff := cmp.Diff(want, last[api.DeadLetterRequest](d, hop.RedriveDeadLetters.Path).Canary); diff != "" {
		t.Errorf("core got %s", diff)
	}
	for body, field := range map[string]string{
		`{"filter":{},"canary":{"success":0.9}}`:                                  "canary.count",
		`{"filter":{},"canary":{"count":2.5,"success":0.9}}`:                      "canary.count",
		`{"filter":{},"canary":{"count":20}}`:                                     "canary.success",
		`{"filter":{},"rate_per_second":0.005,"canary":{"count":20,"success":1}}`: "canary.timeout_seconds",
		`{"filter":{},"canary":{"count":20,"success":1,"percent":1}}`:             "canary.percent",
		`{"filter":{},"canary":20}`:                                               "canary",
		`{"ids":["x"],"canary":{"count":20,"success":1}}`:                         "canary",
	} {
		got := d.do("POST", "/v1/dead-letters/redrive", key, body)
		if got.status != 400 || !strings.Contains(string(got.body), `"field":"`+field+`"`) {
			t.Errorf("%s: status %d %s", body, got.status, got.body)
		}
	}
	got = d.do("POST", "/v1/dead-letters/discard", key, `{"filter":{},"canary":{"count":20,"success":0.9}}`)
	if got.status != 400 || !strings.Contains(string(got.body), `"field":"canary","message":"can only be used for a redrive"`) {
		t.Errorf("a discard: status %d %s", got.status, got.body)
	}
}

func TestRedrives(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.keyWith(func(k *hop.KeyRecord) { k.Scopes = api.Scopes() })
	made := api.Redrive{ID: jobID, Action: "redrive", State: "cancelled"}
	for _, op := range []string{hop.GetRedrive.Path, hop.CancelRedrive.Path} {
		d.core.On(op, func(coretest.Item) coretest.Result { return coretest.Value(200, made) })
	}
	paging(d, hop.ListRedrives.Path, made)
	for _, route := range []struct{ method, path, hop, body string }{
		{"GET", "/v1/redrives/" + jobID, hop.GetRedrive.Path, ""},
		{"POST", "/v1/redrives/" + strings.ToUpper(jobID) + "/cancel", hop.CancelRedrive.Path, ""},
		{"POST", "/v1/redrives/" + jobID + "/cancel", hop.CancelRedrive.Path, "{}"},
	} {
		if got := d.do(route.method, route.path, key, route.body); got.status != 200 || !strings.Contains(string(got.body), `"state":"cancelled"`) {
			t.Errorf("%s: status %d %s", route.path, got.status, got.body)
		}
		if sent := last[hop.ID](d, route.hop); sent.ID != jobID {
			t.Errorf("core got %+v", sent)
		}
	}
	if got := d.do("GET", "/v1/redrives?page_size=3&page_token=t", key, ""); got.status != 200 || !strings.HasPrefix(string(got.body), `{"items":[{"id":"`+jobID) {
		t.Errorf("status %d %s", got.status, got.body)
	}
	d.refuses("/v1/redrives", key, map[string]string{"page_size": "page_size", "page_token": "page_token"})
	d.do("GET", "/v1/redrives/x", key, "").refused(t, 404, problem.NotFound)
	d.do("POST", "/v1/redrives/x/cancel", key, "").refused(t, 404, problem.NotFound)
	d.do("POST", "/v1/redrives/"+jobID+"/cancel", key, `{"x":1}`).refused(t, 400, problem.UnknownField)
}

func TestDeadLetterGroups(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	d.core.On(hop.GroupDeadLetters.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.DeadLetterGroups{Items: []api.DeadLetterGroup{{Fingerprint: "0f", Queue: "q", Count: 3}}, Read: 3, Groups: 1})
	})
	got := d.do("GET", "/v1/dead-letters/groups?queue=q&fingerprint=0F&page_size=7", key, "")
	if got.status != 200 || !strings.HasPrefix(string(got.body), `{"items":[{"fingerprint":"0f","queue":"q","type":"","reason":"","count":3,"count_capped":false,`) || !strings.HasSuffix(string(got.body), `"read":3,"read_capped":false,"groups":1}`) {
		t.Errorf("status %d %s", got.status, got.body)
	}
	want := hop.Filtered[api.DeadLetterFilter]{Filter: api.DeadLetterFilter{Queue: "q", Fingerprint: "0f"}, PageRequest: hop.PageRequest{PageSize: 7}}
	if diff := cmp.Diff(want, last[hop.Filtered[api.DeadLetterFilter]](d, hop.GroupDeadLetters.Path)); diff != "" {
		t.Errorf("core got %s", diff)
	}
	d.refuses("/v1/dead-letters/groups", key, map[string]string{
		"page_size": "page_size", "queue": "name", "type": "name", "after": "time", "before": "time",
	})
	for query, field := range map[string]string{"reason=Deadline": "reason", "fingerprint=xyz": "fingerprint", "page_token=t": "page_token", "user=bob": "user"} {
		if p := d.do("GET", "/v1/dead-letters/groups?"+query, key, "").refused(t, 400, problem.InvalidRequest); len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: errors %v", query, p.Errors)
		}
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	paging(d, hop.ListAudit.Path, api.AuditEntry{ID: jobID, Action: api.AuditPlanPut, Actor: api.AuditActor{Kind: "operator"}, Detail: []byte(`{"a":"<&>"}`)})
	for path, caller := range map[string]string{"/v1/audit": d.key("manage"), "/v1/admin/audit": operatorKey} {
		got := d.do("GET", path+"?action=plan.put&object=p%20q&key_id=k&after=2026-11-20T12:00:00Z&page_size=5", caller, "")
		if got.status != 200 || !strings.Contains(string(got.body), `"actor":{"kind":"operator","key_id":null,"user":null},"action":"plan.put","object":null,"detail":{"a":"<&>"},`) {
			t.Errorf("%s: status %d %s", path, got.status, got.body)
		}
		want := hop.Filtered[api.AuditFilter]{Filter: api.AuditFilter{Action: "plan.put", Object: "p q", KeyID: "k", After: at("2026-11-20T12:00:00Z")}, PageRequest: hop.PageRequest{PageSize: 5}}
		if diff := cmp.Diff(want, last[hop.Filtered[api.AuditFilter]](d, hop.ListAudit.Path)); diff != "" {
			t.Errorf("%s: core got %s", path, diff)
		}
		d.refuses(path, caller, map[string]string{"page_size": "page_size", "page_token": "page_token", "object": "label", "key_id": "label", "after": "time", "before": "time"})
		d.do("GET", path+"?action=nothing", caller, "").refused(t, 400, problem.InvalidRequest)
	}
	if got := d.do("GET", "/v1/admin/audit?tenant="+jobID, operatorKey, ""); got.status != 200 || last[hop.Filtered[api.AuditFilter]](d, hop.ListAudit.Path).Filter.Tenant != jobID {
		t.Errorf("status %d %s", got.status, got.body)
	}
	d.do("GET", "/v1/admin/audit?tenant=x", operatorKey, "").refused(t, 400, problem.InvalidRequest)
	d.do("GET", "/v1/audit?tenant="+jobID, d.key("manage"), "").refused(t, 400, problem.InvalidRequest)
}
