package httpapi_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

var aQueue = api.Queue{
	Name: "mail", Mode: api.ModePull, DepthCapped: []string{"queued"}, Unserved: []api.Unserved{{Type: "resize", Tags: []string{"gpu"}}},
	Depth: api.Depth{Queued: api.MaxDepthCount}, Settings: api.QueueSettings{VisibilityTimeoutMS: 30_000, MaxAttempts: 3, Types: api.TypeLimits{}, Keys: (*api.KeySettings)(nil).InForce()},
}

const queueText = `{"name":"mail","mode":"pull","paused":false,"window_until":null,"depth":{"blocked":0,"scheduled":0,"waiting":0,"queued":10000,"running":0,"dead_letter":0},` +
	`"depth_capped":["queued"],"oldest_queued_ms":null,"active_workers":0,"stale_workers":0,"unserved":[{"type":"resize","tags":["gpu"]}],"drain_per_second":null,"wait_ms":null,"breaker":null,` +
	`"settings":{"visibility_timeout_ms":30000,"max_attempts":3,"retry":{"base_ms":0,"cap_ms":0,"jitter":0,"curve":""},"max_active":null,"max_running":null,"rate_per_second":null,"types":{},"keys":{"fair":true,"max_running":null,"rate_per_second":null,"burst":null,"order":"none","on_dead":"skip"},"costs":null,"windows":null,"push":null,"label":null}}`

func TestQueues(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	read, manage := d.key("read"), d.key("manage")
	paging(d, hop.ListQueues.Path, aQueue)
	got := d.do("GET", "/v1/queues?page_size=9&page_token=t", read, "")
	if got.status != 200 || string(got.body) != `{"items":[`+queueText+`],"next_page_token":"next"}` {
		t.Errorf("list: status %d %s", got.status, got.body)
	}
	asked := hop.ListQueuesRequest{PageRequest: hop.PageRequest{PageSize: 9, PageToken: "t"}}
	if sent := last[hop.ListQueuesRequest](d, hop.ListQueues.Path); sent != asked {
		t.Errorf("core got %+v", sent)
	}
	d.do("GET", "/v1/queues?page_size=9&page_token=t&depth_budget=1000000", read, "")
	asked.DepthBudget = 1_000_000
	if sent := last[hop.ListQueuesRequest](d, hop.ListQueues.Path); sent != asked {
		t.Errorf("core got %+v", sent)
	}
	d.refuses("/v1/queues", read, map[string]string{"page_size": "page_size", "page_token": "page_token", "depth_budget": "budget"})

	whole := func(coretest.Item) coretest.Result { return coretest.Value(200, aQueue) }
	for _, path := range []string{hop.GetQueue.Path, hop.PutQueue.Path, hop.PauseQueue.Path, hop.ProbeQueue.Path} {
		d.core.On(path, whole)
	}
	for _, test := range []struct{ method, path, key, body, hop, sent string }{
		{"GET", "/v1/queues/mail", read, "", hop.GetQueue.Path, `{"name":"mail"}`},
		{"GET", "/v1/queues/mail%3Aeu.1", read, "", hop.GetQueue.Path, `{"name":"mail:eu.1"}`},
		{"PUT", "/v1/queues/mail", manage, "{}", hop.PutQueue.Path, `{"name":"mail","value":{}}`},
		{
			"PUT", "/v1/queues/mail", manage,
			`{"visibility_timeout_ms":1000,"max_attempts":1000,"retry":{"base_ms":1,"jitter":null},"max_running":0,"rate_per_second":0.5}`, hop.PutQueue.Path,
			`{"name":"mail","value":{"visibility_timeout_ms":1000,"max_attempts":1000,"retry":{"base_ms":1},"max_running":0,"rate_per_second":0.5}}`,
		},
		{"PUT", "/v1/queues/mail", manage, `{"max_attempts":null}`, hop.PutQueue.Path, `{"name":"mail","value":{}}`},
		{"POST", "/v1/queues/mail/pause", manage, "", hop.PauseQueue.Path, `{"name":"mail","paused":true}`},
		{"POST", "/v1/queues/mail/pause", manage, "{}", hop.PauseQueue.Path, `{"name":"mail","paused":true}`},
		{"POST", "/v1/queues/mail/probe", manage, "", hop.ProbeQueue.Path, `{"name":"mail"}`},
		{"POST", "/v1/queues/mail/resume", manage, "", hop.PauseQueue.Path, `{"name":"mail","paused":false}`},
	} {
		got := d.do(test.method, test.path, test.key, test.body)
		if got.status != 200 || string(got.body) != queueText {
			t.Errorf("%s %s: status %d %s", test.method, test.path, got.status, got.body)
			continue
		}
		requests := d.core.Requests(test.hop)
		if sent := string(requests[len(requests)-1].Items[0].Request); sent != test.sent {
			t.Errorf("%s %s: core got %s, want %s", test.method, test.path, sent, test.sent)
		}
	}
}

func TestQueuesRefuse(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	manage := d.key("manage", "read")
	for body, want := range map[string]struct {
		code  problem.Code
		field string
	}{
		"":                               {problem.InvalidJSON, ""},
		`[]`:                             {problem.InvalidRequest, "body"},
		`{"max_attempts":1001}`:          {problem.InvalidRequest, "max_attempts"},
		`{"rate_per_second":"1"}`:        {problem.InvalidRequest, "rate_per_second"},
		`{"mode":"push"}`:                {problem.InvalidRequest, "push"},
		`{"push":{"url":"https://a.b"}}`: {problem.InvalidRequest, "push"},
		`{"mode":"push","push":{"url":"ftp://a.b"}}`:                                {problem.InvalidRequest, "push.url"},
		`{"mode":"push","push":{"url":"https://a.b","port":1}}`:                     {problem.UnknownField, "push.port"},
		`{"mode":"push","push":{"url":"https://a.b","breaker":{"open_ms":"long"}}}`: {problem.InvalidRequest, "push.breaker.open_ms"},
		`{"target":{}}`:   {problem.UnknownField, "target"},
		`{"name":"mail"}`: {problem.UnknownField, "name"},
		`{"paused":true}`: {problem.UnknownField, "paused"},
	} {
		p := d.do("PUT", "/v1/queues/mail", manage, body).refused(t, 400, want.code)
		if want.field != "" && (len(p.Errors) != 1 || p.Errors[0].Field != want.field) {
			t.Errorf("%s: errors %v", body, p.Errors)
		}
	}
	d.do("POST", "/v1/queues/mail/pause", manage, `{"paused":true}`).refused(t, 400, problem.UnknownField)
	for _, path := range []string{hop.PutQueue.Path, hop.PauseQueue.Path} {
		if n := len(d.core.Requests(path)); n != 0 {
			t.Errorf("%d bad requests reached %s", n, path)
		}
	}
	bound := d.keyWith(func(k *hop.KeyRecord) { k.Scopes, k.User = []string{"manage", "read"}, "bob" })
	p := d.do("PUT", "/v1/queues/mail", bound, "{}").refused(t, 403, problem.Forbidden)
	if !strings.Contains(p.Detail, "bound to a user") {
		t.Errorf("detail %q", p.Detail)
	}
	for _, path := range []string{"/v1/queues", "/v1/queues/mail", "/v1/workers"} {
		d.do("GET", path, bound, "").refused(t, 403, problem.Forbidden)
	}
}

func TestDeleteQueue(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("manage")
	d.core.On(hop.DeleteQueue.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, struct{}{}) })
	if got := d.do("DELETE", "/v1/queues/q", key, ""); got.status != 204 || len(got.body) != 0 || last[hop.Name](d, hop.DeleteQueue.Path).Name != "q" {
		t.Errorf("%d %s", got.status, got.body)
	}
	d.core.On(hop.DeleteQueue.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.QueueNotEmpty, "1 queued.") })
	d.do("DELETE", "/v1/queues/q", key, "").refused(t, 409, problem.QueueNotEmpty)
}

// The keys of a queue are asked for by its name, with the filter.
func TestQueueKeys(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	read := d.key("read")
	paging(d, hop.ListQueueKeys.Path, api.QueueKey{Key: "k", Waiting: 2, Ready: 1})
	got := d.do("GET", "/v1/queues/mail/keys?min_waiting=3&page_size=9", read, "")
	if got.status != 200 || string(got.body) != `{"items":[{"key":"k","waiting":2,"ready":1,"running":0,"held_by":null}],"next_page_token":"next"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	want := hop.ListQueueKeysRequest{Name: "mail", MinWaiting: 3, PageRequest: hop.PageRequest{PageSize: 9}}
	if sent := last[hop.ListQueueKeysRequest](d, hop.ListQueueKeys.Path); sent != want {
		t.Errorf("sent %+v, want %+v", sent, want)
	}
	d.refuses("/v1/queues/mail/keys", read, map[string]string{"page_size": "page_size", "min_waiting": "min_waiting"})
}

// A queue has a name that its user chose: where there is none, the answer says how one is made.
func TestWithoutAQueueTheAnswerSaysHowOneIsMade(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	none := func(coretest.Item) coretest.Result { return coretest.Refuse(problem.NotFound, "") }
	for _, path := range []string{hop.GetQueue.Path, hop.PauseQueue.Path, hop.ProbeQueue.Path} {
		d.core.On(path, none)
	}
	key := d.key("manage", "read")
	for _, route := range []string{"GET /v1/queues/mail", "POST /v1/queues/mail/pause", "POST /v1/queues/mail/resume", "POST /v1/queues/mail/probe"} {
		method, path, _ := strings.Cut(route, " ")
		p := d.do(method, path, key, "").refused(t, 404, problem.NotFound)
		if want := `There is no queue "mail". Its first job creates it, or its settings do: PUT /v1/queues/mail.`; p.Detail != want {
			t.Errorf("%s: %s", route, p.Detail)
		}
	}
}
