package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// at is a time as a filter has it.
func at(text string) *api.Time {
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return &api.Time{Time: parsed.UTC()}
}

// paging makes core answer a list with a page of items.
func paging[T any](d *door, path string, items ...T) {
	token := "next"
	d.core.On(path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Page[T]{Items: items, NextPageToken: &token})
	})
}

func TestListJobs(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	paging(d, hop.ListJobs.Path, api.JobSummary{ID: jobID, State: "queued", Tags: []string{}, Metadata: map[string]string{"a": "<&>"}})
	for query, want := range map[string]hop.Filtered[api.JobFilter]{
		"":                                   {},
		"page_size=200&page_token=abc":       {PageRequest: hop.PageRequest{PageSize: 200, PageToken: "abc"}},
		"page_size=1":                        {PageRequest: hop.PageRequest{PageSize: 1}},
		"queue=mail:eu":                      {Filter: api.JobFilter{Queue: "mail:eu"}},
		"type=mail.send":                     {Filter: api.JobFilter{Type: "mail.send"}},
		"tag=gpu":                            {Filter: api.JobFilter{Tag: "gpu"}},
		"user=bob%20b":                       {Filter: api.JobFilter{User: "bob b"}},
		"dedupe_key=order%2017":              {Filter: api.JobFilter{DedupeKey: "order 17"}},
		"state=queued":                       {Filter: api.JobFilter{States: []string{"queued"}}},
		"state=running,queued,running":       {Filter: api.JobFilter{States: []string{"queued", "running"}}},
		"state=queued%2Crunning":             {Filter: api.JobFilter{States: []string{"queued", "running"}}},
		"metadata.order=7":                   {Filter: api.JobFilter{Metadata: map[string]string{"order": "7"}}},
		"metadata.a.b=%C3%A9&metadata.c=":    {Filter: api.JobFilter{Metadata: map[string]string{"a.b": "é", "c": ""}}},
		"metadata.metadata.x=1":              {Filter: api.JobFilter{Metadata: map[string]string{"metadata.x": "1"}}},
		"created_after=2026-11-20T12:00:00Z": {Filter: api.JobFilter{CreatedAfter: at("2026-11-20T12:00:00Z")}},
		"created_before=2026-11-20T12:00:00%2B01:00": {Filter: api.JobFilter{CreatedBefore: at("2026-11-20T11:00:00Z")}},
		"created_after=2026-11-20T12:00:00.1234567Z": {Filter: api.JobFilter{CreatedAfter: at("2026-11-20T12:00:00.123456Z")}},
		"queue=q&type=t&tag=g&user=u&state=blocked,scheduled,queued,running,completed,dead_letter,cancelled&metadata.k=v": {Filter: api.JobFilter{
			Queue: "q", Type: "t", Tag: "g", User: "u", Metadata: map[string]string{"k": "v"},
			States: []string{"blocked", "cancelled", "completed", "dead_letter", "queued", "running", "scheduled"},
		}},
	} {
		got := d.do("GET", "/v1/jobs?"+query, key, "")
		if got.status != 200 || !strings.HasPrefix(string(got.body), `{"items":[{"id":"`+jobID+`",`) || !strings.Contains(string(got.body), `"metadata":{"a":"<&>"}`) || !strings.HasSuffix(string(got.body), `"next_page_token":"next"}`) {
			t.Errorf("%s: status %d %s", query, got.status, got.body)
			continue
		}
		if want.PageSize == 0 {
			want.PageSize = 50
		}
		if diff := cmp.Diff(want, last[hop.Filtered[api.JobFilter]](d, hop.ListJobs.Path)); diff != "" {
			t.Errorf("%s: core got %s", query, diff)
		}
	}
}

// badFilters are what each kind of parameter does not take.
var badFilters = map[string][]string{
	"page_size":  {"", "0", "201", "-1", "x"},
	"page_token": {"", strings.Repeat("x", 1025)},
	"budget":     {"", "0", "1000001", "-1", "1.5", "x"},
	"name":       {"", "a b", "-a", "a,b", "é", "a\x00", strings.Repeat("x", 129)},
	"label":      {"", "é", "a\n", "\xff", strings.Repeat("x", 129)},
	"time":       {"", "2026-11-20", "tomorrow", "1764000000", "2026-11-20T12:00:00", "2026-11-20T12:00:00 01:00", "1969-12-31T23:59:59Z", "2501-01-01T00:00:00Z", "2026-02-30T00:00:00Z"},
	"state":      {"", ",", "queued,", "Queued", "queued, running", "dead"},
	"value":      {"\x00", "\xff", strings.Repeat("x", 1025)},
}

// refuses checks that a list refuses each bad value of each parameter, by name.
func (d *door) refuses(path, key string, kinds map[string]string) {
	d.t.Helper()
	for name, kind := range kinds {
		for _, value := range badFilters[kind] {
			query := url.Values{name: {value}}.Encode()
			p := d.do("GET", path+"?"+query, key, "").refused(d.t, 400, problem.InvalidRequest)
			if len(p.Errors) != 1 || p.Errors[0].Field != name {
				d.t.Errorf("%.100s: errors %v", query, p.Errors)
			}
		}
		double := url.Values{name: {"a", "a"}}.Encode()
		if p := d.do("GET", path+"?"+double, key, "").refused(d.t, 400, problem.InvalidRequest); p.Errors[0].Message != "is given more than once" {
			d.t.Errorf("%s twice: %v", name, p.Errors)
		}
	}
}

func TestListJobsRefuses(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	d.refuses("/v1/jobs", key, map[string]string{
		"page_size": "page_size", "page_token": "page_token", "queue": "name", "type": "name", "tag": "name", "user": "label",
		"state": "state", "created_after": "time", "created_before": "time", "metadata.k": "value",
	})
	many := url.Values{}
	for i := range api.MaxMetadata + 1 {
		many.Set(fmt.Sprintf("metadata.k%d", i), "v")
	}
	for query, fields := range map[string][]string{
		"metadata.=1":                 {"metadata."},
		"metadata.-a=1":               {"metadata.-a"},
		"metadata.a%20b=1":            {"metadata.a b"},
		"metadata=1":                  {"metadata"},
		"Metadata.k=1":                {"Metadata.k"},
		"metadatak=1":                 {"metadatak"},
		"states=queued":               {"states"},
		"queue.x=1":                   {"queue.x"},
		"queue=-&state=x&page_size=0": {"page_size", "queue", "state"},
		many.Encode():                 {"metadata"},
	} {
		p := d.do("GET", "/v1/jobs?"+query, key, "").refused(t, 400, problem.InvalidRequest)
		var got []string
		for _, refused := range p.Errors {
			got = append(got, refused.Field)
		}
		slices.Sort(got)
		if diff := cmp.Diff(fields, got); diff != "" {
			t.Errorf("%.100s: %s", query, diff)
		}
	}
	if n := len(d.core.Requests(hop.ListJobs.Path)); n != 0 {
		t.Errorf("%d bad requests reached core", n)
	}
	paging(d, hop.ListJobs.Path, api.JobSummary{})
	most := maps.Clone(many)
	most.Del("metadata.k0")
	if got := d.do("GET", "/v1/jobs?"+most.Encode(), key, ""); got.status != 200 {
		t.Errorf("the most metadata: status %d", got.status)
	}
	d.core.On(hop.ListJobs.Path, func(coretest.Item) coretest.Result {
		return coretest.Refuse(problem.InvalidRequest, "page_token: is of another list")
	})
	d.do("GET", "/v1/jobs?page_token=x", key, "").refused(t, 400, problem.InvalidRequest)
}

// A user-bound key lists its own user's jobs alone, whether it says so or not.
func TestListJobsOfAUser(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	paging(d, hop.ListJobs.Path, api.JobSummary{})
	key := d.keyWith(func(k *hop.KeyRecord) { k.Scopes, k.User = []string{"read"}, "bob" })
	for _, query := range []string{"", "?user=bob"} {
		if got := d.do("GET", "/v1/jobs"+query, key, ""); got.status != 200 || last[hop.Filtered[api.JobFilter]](d, hop.ListJobs.Path).Filter.User != "bob" {
			t.Errorf("%s: status %d %s", query, got.status, got.body)
		}
		if principal := d.core.Requests(hop.ListJobs.Path)[0].Items[0].Principal; principal.User != "bob" {
			t.Errorf("%s: principal %+v", query, principal)
		}
	}
	if p := d.do("GET", "/v1/jobs?user=eve", key, "").refused(t, 403, problem.Forbidden); len(p.Errors) != 1 || p.Errors[0].Field != "user" {
		t.Errorf("errors %v", p.Errors)
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	paging(d, hop.ListAttempts.Path, api.Attempt{Attempt: 1, Epoch: 1, Kind: "failed", Error: &api.JobError{Type: "E", Message: "<m>", Stack: "s"}})
	got := d.do("GET", "/v1/jobs/"+strings.ToUpper(jobID)+"/attempts?page_size=7&page_token=t", key, "")
	want := `{"items":[{"attempt":1,"epoch":1,"kind":"failed","worker_id":null,"started_at":null,"ended_at":null,"error":{"type":"E","message":"<m>","stack":"s"},"next_run_at":null}],"next_page_token":"next"}`
	if got.status != 200 || string(got.body) != want {
		t.Errorf("status %d %s", got.status, got.body)
	}
	if sent := last[hop.PageFor](d, hop.ListAttempts.Path); sent != (hop.PageFor{For: jobID, PageRequest: hop.PageRequest{PageSize: 7, PageToken: "t"}}) {
		t.Errorf("core got %+v", sent)
	}
	d.refuses("/v1/jobs/"+jobID+"/attempts", key, map[string]string{"page_size": "page_size", "page_token": "page_token"})
	d.do("GET", "/v1/jobs/x/attempts", key, "").refused(t, 404, problem.NotFound)
}

func TestListWorkers(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	paging(d, hop.ListWorkers.Path, api.Worker{WorkerID: "w1", Status: api.WorkerStale})
	for kind, key := range map[string]string{"tenant": d.key("read"), "platform": d.platformKey()} {
		got := d.do("GET", "/v1/workers?page_size=3", key, "")
		if got.status != http.StatusOK || !strings.Contains(string(got.body), `{"worker_id":"w1","status":"STALE",`) {
			t.Errorf("%s: status %d %s", kind, got.status, got.body)
		}
		requests := d.core.Requests(hop.ListWorkers.Path)
		if principal := requests[len(requests)-1].Items[0].Principal; principal.Kind != kind || last[hop.PageRequest](d, hop.ListWorkers.Path).PageSize != 3 {
			t.Errorf("%s: core got %+v", kind, requests[len(requests)-1].Items[0])
		}
	}
	d.refuses("/v1/workers", d.key("read"), map[string]string{"page_size": "page_size", "page_token": "page_token"})
}
