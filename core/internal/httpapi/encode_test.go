package httpapi

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Whatever writes an answer, it is what encoding/json would write.
func TestEncodeIsAsEncodingJSON(t *testing.T) {
	t.Parallel()
	stored := hop.SubmitResponse(`{"id":"0190","metadata":{"b":"<&>","a":"\u00e9"},"run_at":null}`)
	payload := json.RawMessage(`{"n":1.50,"same":1,"same":2,"text":"<\u00e9> é \/","deep":[[],{}]}`)
	at := api.At(time.Date(2026, 11, 20, 1, 2, 3, 4000, time.UTC))
	for name, results := range map[string]any{
		"submits": hop.Results[hop.SubmitResponse]{Results: []hop.Result[hop.SubmitResponse]{
			{Status: 202, Value: &stored},
			{Status: 200, Replayed: true, Value: &stored},
			{Status: 429, Problem: problem.New(problem.ActiveCapReached, "full <of> it")},
			{Status: 204},
		}},
		"no submits": hop.Results[hop.SubmitResponse]{Results: []hop.Result[hop.SubmitResponse]{}},
		"jobs": hop.Results[api.Job]{Results: []hop.Result[api.Job]{{Status: 200, Value: &api.Job{
			JobSummary: api.JobSummary{ID: "0190", Tags: []string{}, Metadata: map[string]string{"b": "2", "a": "1 <"}, RunAt: &at, CreatedAt: at, Retry: api.Retry{Jitter: 0.2}},
			Payload:    payload, LastError: &api.JobError{Type: "T", Message: "m\n\t\x01"},
		}}}},
		"claims": hop.Results[api.ClaimResponse]{Results: []hop.Result[api.ClaimResponse]{
			{Status: 200, Value: &api.ClaimResponse{}}, {Status: 200, Value: &api.ClaimResponse{Jobs: []api.ClaimedJob{{Payload: payload}, {}}}},
		}},
		"pages": hop.Results[api.Page[api.JobSummary]]{Results: []hop.Result[api.Page[api.JobSummary]]{
			{Status: 200, Value: &api.Page[api.JobSummary]{Items: []api.JobSummary{}}},
			{Status: 200, Value: &api.Page[api.JobSummary]{Items: []api.JobSummary{{Metadata: map[string]string{"line": "a\u007f\u0000<"}}}, NextPageToken: new("t")}},
		}},
		"parents": hop.Results[api.Page[api.JobParent]]{Results: []hop.Result[api.Page[api.JobParent]]{
			{Status: 200, Value: &api.Page[api.JobParent]{Items: []api.JobParent{{Result: json.RawMessage("{\"a\":\"\u2028 \\u2028 <\"}")}, {}}}},
		}},
		"outcomes": hop.Results[api.OutcomesResponse]{Results: []hop.Result[api.OutcomesResponse]{{Status: 200, Value: &api.OutcomesResponse{
			Results: []api.OutcomeResult{{Status: 409, Problem: problem.New(problem.LeaseLost, "")}, {Status: 200, Outcome: &api.Outcome{}}},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := encode(results)
			if err != nil {
				t.Fatal(err)
			}
			var want bytes.Buffer
			encoder := json.NewEncoder(&want)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(results); err != nil {
				t.Fatal(err)
			}
			if want := bytes.TrimSpace(want.Bytes()); !bytes.Equal(got, want) {
				t.Errorf("wrote\n%s\nnot\n%s", got, want)
			}
		})
	}
}
