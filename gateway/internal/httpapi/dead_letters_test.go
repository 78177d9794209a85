package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	paging(d, hop.ListDeadLetters.Path, api.DeadLetter{
		Job: api.JobSummary{ID: jobID}, Reason: "deadline", Fingerprint: "00ff", Attempts: 2, Error: &api.JobError{Message: "<m>"},
	})
	for query, want := range map[string]api.DeadLetterFilter{
		"":                                    {},
		"queue=q":                             {Queue: "q"},
		"type=t":                              {Type: "t"},
		"reason=exhausted":                    {Reason: "exhausted"},
		"reason=permanent":                    {Reason: "permanent"},
		"reason=worker_lost":                  {Reason: "worker_lost"},
		"reason=deadline":                     {Reason: "deadline"},
		"fingerprint=00FFab":                  {Fingerprint: "00ffab"},
		"after=2026-11-20T12:00:00Z":          {After: at("2026-11-20T12:00:00Z")},
		"queue=q&before=2026-11-20T12:00:00Z": {Queue: "q", Before: at("2026-11-20T12:00:00Z")},
	} {
		got := d.do("GET", "/v1/dead-letters?page_size=5&page_token=t&"+query, key, "")
		if got.status != 200 || !strings.Contains(string(got.body), `"reason":"deadline","error":{"type":"","message":"<m>","stack":""},"fingerprint":"00ff","attempts":2,`) {
			t.Errorf("%s: status %d %s", query, got.status, got.body)
			continue
		}
		sent := last[hop.Filtered[api.DeadLetterFilter]](d, hop.ListDeadLetters.Path)
		if diff := cmp.Diff(hop.Filtered[api.DeadLetterFilter]{Filter: want, PageRequest: hop.PageRequest{PageSize: 5, PageToken: "t"}}, sent); diff != "" {
			t.Errorf("%s: core got %s", query, diff)
		}
	}
	d.refuses("/v1/dead-letters", key, map[string]string{
		"page_size": "page_size", "page_token": "page_token", "queue": "name", "type": "name", "after": "time", "before": "time",
	})
	for query, field := range map[string]string{
		"reason=": "reason", "reason=Deadline": "reason", "reason=exhausted,deadline": "reason",
		"fingerprint=": "fingerprint", "fingerprint=xyz": "fingerprint", "fingerprint=" + strings.Repeat("0", 65): "fingerprint",
		"user=bob": "user", "state=dead_letter": "state",
	} {
		if p := d.do("GET", "/v1/dead-letters?"+query, key, "").refused(t, 400, problem.InvalidRequest); len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: errors %v", query, p.Errors)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("submit")
	path := "/v1/jobs/" + jobID + "/cancel"
	for _, test := range []struct {
		requested bool
		status    int
		body      string
	}{{false, 200, ""}, {true, 202, ""}, {true, 202, " {} "}} {
		d.core.On(hop.CancelJob.Path, func(coretest.Item) coretest.Result {
			return coretest.Value(200, hop.CancelResponse{Job: api.JobSummary{ID: jobID, CancelRequested: test.requested}, Requested: test.requested})
		})
		got := d.do("POST", path, key, test.body)
		if got.status != test.status || !strings.HasPrefix(string(got.body), `{"id":"`+jobID+`",`) || strings.Contains(string(got.body), `"requested"`) {
			t.Errorf("status %d %s", got.status, got.body)
		}
	}
	if sent := last[hop.ID](d, hop.CancelJob.Path); sent.ID != jobID {
		t.Errorf("core got %+v", sent)
	}
	d.do("POST", path, key, `{"reason":"x"}`).refused(t, 400, problem.UnknownField)
	d.do("POST", path, key, `[]`).refused(t, 400, problem.InvalidRequest)
	d.do("POST", "/v1/jobs/x/cancel", key, "").refused(t, 404, problem.NotFound)
	for _, code := range []problem.Code{problem.JobTerminal, problem.NotFound} {
		d.core.On(hop.CancelJob.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(code, "core says so") })
		d.do("POST", path, key, "").refused(t, problem.New(code, "").Status, code)
	}
}

func TestRedriveOneJob(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("manage")
	path := "/v1/jobs/" + jobID + "/redrive"
	d.core.On(hop.RedriveJob.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.JobSummary{ID: jobID, Redrives: 1})
	})
	for _, body := range []string{"", "{}"} {
		if got := d.do("POST", path, key, body); got.status != 202 || !strings.Contains(string(got.body), `"redrives":1`) {
			t.Errorf("status %d %s", got.status, got.body)
		}
	}
	if sent := last[hop.ID](d, hop.RedriveJob.Path); sent.ID != jobID {
		t.Errorf("core got %+v", sent)
	}
	d.do("POST", path, key, `{"x":1}`).refused(t, 400, problem.UnknownField)
	d.do("POST", "/v1/jobs/x/redrive", key, "").refused(t, 404, problem.NotFound)
	for _, code := range []problem.Code{problem.NotDead, problem.DedupeConflict, problem.ActiveCapReached, problem.NotFound} {
		d.core.On(hop.RedriveJob.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(code, "core says so") })
		d.do("POST", path, key, "").refused(t, problem.New(code, "").Status, code)
	}
}

// settling makes core answer a list of dead letters: one with an id is queued
// again, one without is not there.
func (d *door) settling(path string) {
	d.core.On(path, func(item coretest.Item) coretest.Result {
		var request api.DeadLetterRequest
		_ = json.Unmarshal(item.Request, &request)
		if request.DryRun {
			return coretest.Value(200, api.Matched{Matched: int64(len(request.IDs))})
		}
		var response api.DeadLetterResponse
		for i, id := range request.IDs {
			result := api.BatchResult{Index: i, Status: 202, Job: &api.BatchJob{ID: id, State: "queued"}}
			if id == "" {
				p := problem.New(problem.NotFound, "core's words")
				p.Instance = path
				result = api.BatchResult{Index: i, Status: 404, Problem: p}
			}
			response.Results = append(response.Results, result)
		}
		return coretest.Value(200, response)
	})
}

func TestSettleDeadLetters(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("manage")
	for verb, op := range map[string]string{"redrive": hop.RedriveDeadLetters.Path, "discard": hop.DiscardDeadLetters.Path} {
		path := "/v1/dead-letters/" + verb
		d.settling(op)
		got := d.do("POST", path, key, fmt.Sprintf(`{"ids":[%q,"nonsense",%q,""],"dry_run":false}`, jobID, strings.ToUpper(jobID)))
		var response api.DeadLetterResponse
		if err := json.Unmarshal(got.body, &response); err != nil || got.status != 200 || len(response.Results) != 4 {
			t.Fatalf("%s: status %d %s", verb, got.status, got.body)
		}
		if sent := last[api.DeadLetterRequest](d, op); !cmp.Equal(sent, api.DeadLetterRequest{IDs: []string{jobID, "", jobID, ""}}) {
			t.Errorf("%s: core got %+v", verb, sent)
		}
		for i, result := range response.Results {
			if result.Index != i || (result.Job == nil) != (i%2 == 1) {
				t.Errorf("%s: result %d: %+v", verb, i, result)
			}
			if p := result.Problem; p != nil && (p.Code != problem.NotFound || p.Instance != path || p.RequestID != got.header.Get("X-Request-Id") || p.Detail == "core's words") {
				t.Errorf("%s: result %d: %+v", verb, i, p)
			}
		}
		if got := d.do("POST", path, key, fmt.Sprintf(`{"ids":[%q],"dry_run":true}`, jobID)); got.status != 200 || string(got.body) != `{"matched":1,"matched_capped":false}` {
			t.Errorf("%s: dry run: status %d %s", verb, got.status, got.body)
		}
		many := strings.Repeat(`"x",`, api.MaxBatchJobs)
		if got := d.do("POST", path, key, `{"ids":[`+many[:len(many)-1]+`]}`); got.status != 200 {
			t.Errorf("%s: the most ids: status %d", verb, got.status)
		}
		before := len(d.core.Requests(op))
		for body, code := range map[string]problem.Code{
			"":                          problem.InvalidJSON,
			"{}":                        problem.InvalidRequest,
			`{"ids":null}`:              problem.InvalidRequest,
			`{"ids":[1]}`:               problem.InvalidRequest,
			`{"ids":["x"],"dry_run":1}`: problem.InvalidRequest,
			`{"ids":["x"],"filter":{}}`: problem.InvalidRequest,
			`{"ids":[],"filter":{}}`:    problem.InvalidRequest,
			`{"filter":null}`:           problem.InvalidRequest,
			`{"ids":["x"],"rate":1}`:    problem.UnknownField,
			`{"ids":["x"],"ids":["y"]}`: problem.InvalidJSON,
		} {
			d.do("POST", path, key, body).refused(t, 400, code)
		}
		if n := len(d.core.Requests(op)); n != before {
			t.Errorf("%s: bad requests reached core", verb)
		}
		d.core.On(op, func(coretest.Item) coretest.Result { return coretest.Value(200, api.DeadLetterResponse{}) })
		d.do("POST", path, key, `{"ids":["x"]}`).refused(t, 500, problem.Internal)
		d.core.On(op, func(coretest.Item) coretest.Result { return coretest.Value(200, []int{}) })
		d.do("POST", path, key, `{"ids":["x"]}`).refused(t, 503, problem.OutcomeUnknown)
	}
}
