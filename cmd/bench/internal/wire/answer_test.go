package wire

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// What is searched for must be what the API's own types write.
func TestLeasesAreFound(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	at := 1500 * time.Millisecond
	var sent api.SubmitRequest
	if err := json.Unmarshal(NewShape("q", 300, 1).appendJob(nil, at), &sent); err != nil {
		t.Fatal(err)
	}
	response := api.ClaimResponse{Jobs: []api.ClaimedJob{
		{ID: "0199f0a4-0000-7000-8000-000000000001", Payload: sent.Payload, LeaseToken: "tok-1", Metadata: map[string]string{"a": "b"}},
		{ID: "0199f0a4-0000-7000-8000-000000000002", Payload: json.RawMessage(`{"of":"somebody else"}`), LeaseToken: "tok_2"},
	}}
	plain, err := json.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	answered, err := json.Marshal(hop.Results[api.ClaimResponse]{Results: []hop.Result[api.ClaimResponse]{{Status: 200, Value: &response}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range [][]byte{plain, answered} {
		found, err := findLeases(body, begun, nil)
		if err != nil || len(found) != 2 {
			t.Fatalf("%d found, %v", len(found), err)
		}
		if found[0].id != response.Jobs[0].ID || found[0].token != "tok-1" || !found[0].Intended.Equal(begun.Add(at)) {
			t.Errorf("%+v", found[0])
		}
		if found[1].token != "tok_2" || !found[1].Intended.IsZero() {
			t.Errorf("%+v", found[1])
		}
		for cut := range body { // an answer cut at any byte makes no panic and no wrong lease
			for _, one := range must(findLeases(body[:cut], begun, nil)) {
				if one.token != "tok-1" && one.token != "tok_2" {
					t.Fatalf("cut at %d: %+v", cut, one)
				}
			}
		}
	}
}

func must(found []Lease, _ error) []Lease { return found }

func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	write := func(value any) []byte {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	refused := problem.New(problem.QueueFull, "full")
	batch := api.BatchResponse{Accepted: 12, Rejected: 2, Results: []api.BatchResult{{Status: 429, Problem: refused}, {Status: 429, Problem: refused}}}
	raw := json.RawMessage(write(batch))
	answered := hop.Results[json.RawMessage]{Results: []hop.Result[json.RawMessage]{{Status: 200, Value: &raw}, {Status: 200, Value: &raw}}}
	single := json.RawMessage(write(api.SubmitResponse{}))
	singles := hop.Results[json.RawMessage]{Results: []hop.Result[json.RawMessage]{{Status: 202, Value: &single}, {Status: 429, Problem: refused}}}
	for name, test := range map[string]struct {
		answer reply
		batch  bool
		want   int
	}{
		"one":          {reply{status: 202, body: single}, false, 1},
		"batch":        {reply{status: 200, body: write(batch)}, true, 12},
		"core, batch":  {reply{status: 200, body: write(answered)}, true, 24},
		"core, single": {reply{status: 200, body: write(singles)}, false, 1},
		"refused":      {reply{status: 429, body: write(refused)}, false, 0},
	} {
		if got := countSubmitted(test.answer, test.batch); got != test.want {
			t.Errorf("%s: %d, want %d in %s", name, got, test.want, test.answer.body)
		}
	}
	outcomes := api.OutcomesResponse{Results: []api.OutcomeResult{
		{Index: 0, Status: 200, Outcome: &api.Outcome{State: "completed"}}, {Index: 1, Status: 409, Problem: problem.New(problem.LeaseLost, "gone")},
	}}
	if got := countCompleted(write(outcomes)); got != 1 {
		t.Errorf("%d outcomes", got)
	}
	if got := countCompleted(write(hop.Results[api.OutcomesResponse]{Results: []hop.Result[api.OutcomesResponse]{{Status: 200, Value: &outcomes}}})); got != 1 {
		t.Errorf("%d outcomes at core", got)
	}
	if byCode, example := problems(write(batch)); byCode["queue_full"] != 2 || example != "full" {
		t.Errorf("%v %q", byCode, example)
	}
}
