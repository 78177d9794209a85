package outbox

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func result(code problem.Code) api.BatchResult {
	if code == "" {
		return api.BatchResult{Status: http.StatusAccepted, Job: &api.BatchJob{ID: "id"}}
	}
	p := problem.New(code, "because")
	return api.BatchResult{Status: p.Status, Problem: p}
}

// Rows leave a batch only if no other try of it can still be stored.
func TestJudge(t *testing.T) {
	t.Parallel()
	other := errors.New("connection reset")
	for name, c := range map[string]struct {
		results  []api.BatchResult
		err      error
		earlier  bool // an earlier try is unknown
		once     bool
		kind     int
		verdicts []int
		unknown  bool
		halt     bool
	}{
		"all accepted":               {results: []api.BatchResult{result(""), result("")}, once: true, kind: ended, verdicts: []int{accepted, accepted}},
		"some, saved":                {results: []api.BatchResult{result(""), result(problem.QueueFull)}, earlier: true, kind: ended, verdicts: []int{accepted, postponed}},
		"none, first try":            {results: []api.BatchResult{result(problem.QueueFull), result(problem.InvalidRequest)}, once: true, kind: ended, verdicts: []int{postponed, refused}},
		"none, one is under way":     {results: []api.BatchResult{result(problem.QueueFull), result(problem.InvalidRequest)}, earlier: true, once: true, kind: kept},
		"none, two tries":            {results: []api.BatchResult{result(problem.QueueFull), result(problem.QueueFull)}, kind: kept},
		"refused for good":           {results: []api.BatchResult{result(problem.InvalidRequest), result(problem.Forbidden)}, earlier: true, kind: ended, verdicts: []int{refused, refused}},
		"too many lanes":             {results: []api.BatchResult{result(""), result(problem.TooManyLanes)}, once: true, kind: ended, verdicts: []int{accepted, postponed}},
		"an answer too short":        {results: []api.BatchResult{result("")}, once: true, kind: kept, unknown: true, halt: true},
		"no answer":                  {err: other, kind: kept, unknown: true, halt: true},
		"not sent":                   {err: other, once: true, kind: kept, halt: true},
		"core is down":               {err: problem.New(problem.CoreUnavailable, ""), once: true, kind: kept, halt: true},
		"core is down, second":       {err: problem.New(problem.CoreUnavailable, ""), kind: kept, unknown: true, halt: true},
		"outcome unknown":            {err: problem.New(problem.OutcomeUnknown, ""), once: true, kind: kept, unknown: true, halt: true},
		"internal":                   {err: problem.New(problem.Internal, ""), once: true, kind: kept, unknown: true, halt: true},
		"rate":                       {err: problem.New(problem.RateLimited, ""), once: true, kind: kept, halt: true},
		"key":                        {err: problem.New(problem.Unauthenticated, ""), once: true, kind: kept, halt: true},
		"spoiled":                    {err: problem.New(problem.InvalidJSON, ""), once: true, kind: split},
		"a proxy's limit":            {err: &client.StatusError{Status: 413}, once: true, kind: split},
		"a proxy's 400":              {err: &client.StatusError{Status: 400}, once: true, kind: kept, halt: true},
		"a proxy's 502":              {err: &client.StatusError{Status: 502}, once: true, kind: kept, unknown: true, halt: true},
		"a proxy's 200":              {err: &client.StatusError{Status: 200}, once: true, kind: kept, unknown: true, halt: true},
		"a proxy's 429":              {err: &client.StatusError{Status: 429}, once: true, kind: kept, halt: true},
		"rows of the batch are gone": {err: problem.New(problem.IdempotencyMismatch, ""), once: true, kind: ended, verdicts: []int{refused, refused}},
	} {
		b := &batch{rows: []row{{id: 1}, {id: 2}}, tries: 1, unknown: c.earlier}
		j := judge(b, api.BatchResponse{Results: c.results}, c.err, c.once)
		var kinds []int
		for _, v := range j.verdicts {
			kinds = append(kinds, v.kind)
		}
		if j.kind != c.kind || !slices.Equal(kinds, c.verdicts) || j.unknown != c.unknown || j.halt != c.halt {
			t.Errorf("%s: kind %d, verdicts %v, unknown %v, halt %v (%s)", name, j.kind, kinds, j.unknown, j.halt, j.err)
		}
		if j.kind == kept && (j.wait <= 0 || j.err == "") {
			t.Errorf("%s: waits %v, error %q", name, j.wait, j.err)
		}
	}
	single := judge(&batch{tries: 1, rows: []row{{id: 1}}}, api.BatchResponse{}, problem.New(problem.InvalidJSON, ""), true)
	if single.kind != ended || single.verdicts[0].kind != refused {
		t.Errorf("a row alone: %+v", single)
	}
	users := problem.New(problem.RateLimited, "")
	users.Policies = []problem.Policy{{Name: "user-jobs"}}
	ada := "ada"
	mixed := &batch{tries: 1, rows: []row{{id: 1}, {id: 2, job: api.SubmitRequest{User: &ada}}}}
	if j := judge(mixed, api.BatchResponse{}, users, true); j.kind != split || j.halt {
		t.Errorf("a rate of a user, rows of two: %+v", j)
	}
	mixed.unknown = true
	if j := judge(mixed, api.BatchResponse{}, users, true); j.kind != kept || j.halt {
		t.Errorf("the same, and an earlier try is unknown: %+v", j)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for before := range 100 {
		if wait := backoff(before); wait < leastBackoff/2 || wait > mostBackoff {
			t.Errorf("%d: %v", before, wait)
		}
	}
	for _, text := range []string{strings.Repeat("ü", 4000), "a\x00b\xff"} {
		if got := clean(text); len(got) > 5000 || strings.ContainsAny(got, "\x00") || strings.ToValidUTF8(got, "") != got {
			t.Errorf("%q", got)
		}
	}
	if one, other := newID(), newID(); len(one) != 36 || one == other {
		t.Error(one, other)
	}
}
