package httpapi_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestStats(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	at := api.At(time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC))
	d.core.On(hop.GetStats.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Stats{From: at, To: at, Step: api.StepMinute, Items: []api.StatsItem{{At: at, Submitted: 1}}})
	})
	const want = `{"from":"2026-11-24T10:00:00.000000Z","to":"2026-11-24T10:00:00.000000Z","step":"minute","queue":null,"items":[{"at":"2026-11-24T10:00:00.000000Z",` +
		`"submitted":1,"started":0,"completed":0,"failed_attempts":0,"dead_letter":0,"cancelled":0,"waiting_ms":0,"running_ms":0}]}`
	for path, sent := range map[string]string{
		"/v1/stats": `{"from":null,"to":null}`,
		"/v1/stats?queue=mail&from=2026-11-24T10:00:00Z&to=2026-11-24T12:00:00%2B01:00&step=hour": `{"queue":"mail","from":"2026-11-24T10:00:00.000000Z","to":"2026-11-24T11:00:00.000000Z","step":"hour"}`,
	} {
		got := d.do("GET", path, d.key("read"), "")
		if got.status != 200 || string(got.body) != want {
			t.Errorf("%s: status %d %s", path, got.status, got.body)
		}
		requests := d.core.Requests(hop.GetStats.Path)
		if request := string(requests[len(requests)-1].Items[0].Request); request != sent {
			t.Errorf("%s: core got %s, want %s", path, request, sent)
		}
	}
	for parameter, value := range map[string]string{"queue": "a%20b", "from": "yesterday", "to": "12", "step": "week", "page_size": "3"} {
		got := d.do("GET", "/v1/stats?"+parameter+"="+value, d.key("read"), "")
		if p := got.problem(t); got.status != 400 || p.Code != problem.InvalidRequest || p.Errors[0].Field != parameter {
			t.Errorf("%s: status %d %s", parameter, got.status, got.body)
		}
	}
}

func TestLimitStats(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	at := api.At(time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC))
	d.core.On(hop.GetLimitStats.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.LimitStats{
			From: at, To: at, Step: api.StepHour, Limits: []api.LimitHistory{{Name: "tenant-active", Items: []api.LimitStatsItem{{At: at, Used: 9, Limit: 10, Refused: 2}}}},
			Refused: []api.LimitRefusals{{Name: "user-active", Whose: new("ada"), Refused: 2, LastAt: at}},
		})
	})
	const want = `{"from":"2026-11-24T10:00:00.000000Z","to":"2026-11-24T10:00:00.000000Z","step":"hour","queue":null,` +
		`"limits":[{"name":"tenant-active","items":[{"at":"2026-11-24T10:00:00.000000Z","used":9,"limit":10,"refused":2}]}],` +
		`"refused":[{"name":"user-active","whose":"ada","refused":2,"last_at":"2026-11-24T10:00:00.000000Z"}]}`
	got := d.do("GET", "/v1/limits/stats?queue=mail&from=2026-11-24T10:00:00Z&step=hour", d.key("read"), "")
	if got.status != 200 || string(got.body) != want {
		t.Errorf("status %d %s", got.status, got.body)
	}
	requests := d.core.Requests(hop.GetLimitStats.Path)
	if sent := string(requests[len(requests)-1].Items[0].Request); sent != `{"queue":"mail","from":"2026-11-24T10:00:00.000000Z","to":null,"step":"hour"}` {
		t.Errorf("core got %s", sent)
	}
	if got := d.do("GET", "/v1/limits/stats?step=week", d.key("read"), ""); got.status != 400 {
		t.Errorf("status %d %s", got.status, got.body)
	}
	if got := d.do("GET", "/v1/limits/stats", d.key("submit"), ""); got.status != 403 {
		t.Errorf("without the scope read: status %d %s", got.status, got.body)
	}
}

func TestTenantStats(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	at := api.At(time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC))
	attempts := api.TenantAttempts{Started: 9, Completed: 8, RunningMS: 7, Items: []api.TenantStatsItem{{At: at, Started: 9, RunningMS: 7}}}
	d.core.On(hop.GetTenantStats.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.TenantStats{
			From: at, To: at, Step: api.StepMinute, Tenants: []api.StatsTenant{{TenantID: "t", Name: "acme", Weight: 2, TenantAttempts: attempts}},
			Others: api.StatsOthers{Tenants: 3, Weight: 4, TenantAttempts: attempts},
		})
	})
	const counts = `"started":9,"completed":8,"running_ms":7,"items":[{"at":"2026-11-24T10:00:00.000000Z","started":9,"running_ms":7}]}`
	const want = `{"from":"2026-11-24T10:00:00.000000Z","to":"2026-11-24T10:00:00.000000Z","step":"minute",` +
		`"tenants":[{"tenant_id":"t","name":"acme","weight":2,` + counts + `],"others":{"tenants":3,"weight":4,` + counts + `}`
	got := d.do("GET", "/v1/admin/tenants/stats?from=2026-11-24T10:00:00Z&step=minute", operatorKey, "")
	if got.status != 200 || string(got.body) != want {
		t.Errorf("status %d %s", got.status, got.body)
	}
	requests := d.core.Requests(hop.GetTenantStats.Path)
	if sent := string(requests[len(requests)-1].Items[0].Request); sent != `{"from":"2026-11-24T10:00:00.000000Z","to":null,"step":"minute"}` {
		t.Errorf("core got %s", sent)
	}
	if got := d.do("GET", "/v1/admin/tenants/stats?queue=mail", operatorKey, ""); got.status != 400 {
		t.Errorf("of a queue: status %d %s", got.status, got.body)
	}
	if got := d.do("GET", "/v1/admin/tenants/stats", d.key("read"), ""); got.status != 403 {
		t.Errorf("a tenant's key: status %d %s", got.status, got.body)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.On(hop.GetUsage.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Usage{
			From: "2026-11-01", To: "2026-11-24", By: api.ByUser, Begins: "2026-10-01", ClosedThrough: "2026-11-23", Items: []api.UsageItem{{Open: true, Accepted: 3}},
		})
	})
	const want = `{"from":"2026-11-01","to":"2026-11-24","by":"user","begins":"2026-10-01","closed_through":"2026-11-23","capped":false,"items":[{"day":null,"type":null,"user":null,` +
		`"open":true,"accepted":3,"completed":0,"dead_letter":0,"redriven":0,"cancelled":0,"discarded":0,"running_ms":0,"failed_running_ms":0}],"next_page_token":null}`
	for path, sent := range map[string]string{
		"/v1/usage": `{"page_size":50}`,
		"/v1/usage?from=2026-11-01&to=2026-11-24&by=user&page_size=9&page_token=t": `{"from":"2026-11-01","to":"2026-11-24","by":"user","page_size":9,"page_token":"t"}`,
	} {
		got := d.do("GET", path, d.key("read"), "")
		if got.status != 200 || string(got.body) != want {
			t.Errorf("%s: status %d %s", path, got.status, got.body)
		}
		requests := d.core.Requests(hop.GetUsage.Path)
		if request := string(requests[len(requests)-1].Items[0].Request); request != sent {
			t.Errorf("%s: core got %s, want %s", path, request, sent)
		}
	}
	for parameter, value := range map[string]string{"from": "2026-11-31", "to": "2026-11-24T00:00:00Z", "by": "queue", "queue": "q", "page_size": "0"} {
		got := d.do("GET", "/v1/usage?"+parameter+"="+value, d.key("read"), "")
		if p := got.problem(t); got.status != 400 || p.Code != problem.InvalidRequest || p.Errors[0].Field != parameter {
			t.Errorf("%s: status %d %s", parameter, got.status, got.body)
		}
	}
}
