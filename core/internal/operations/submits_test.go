package operations

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// The response to a submit has a status for each job, and is written as encoding/json would
// write it.
func TestSubmitResponses(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 1, 2, 3, 4000, time.UTC)
	row := &read.Row{
		ID: uuid.MustParse("01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"), State: api.StateQueued, Type: "t", Queue: "q",
		Metadata: []byte(`{"b":"<&>","a":"é"}`), DedupeKey: new("k < l"), CreatedAt: at, RunAt: at,
	}
	refused := problem.New(problem.QueueFull, "full <of> it")
	stored, live := submit.JobResult{Row: row}, submit.JobResult{Row: row, Deduplicated: true}
	replaced := submit.JobResult{Row: row, Deduplicated: true, Replaced: true}
	brief := &api.BatchJob{ID: row.ID.String(), State: api.StateQueued, RunAt: &api.Time{Time: at}}
	briefReplaced := *brief
	briefReplaced.Replaced = true
	for name, c := range map[string]struct {
		answer submit.Answer
		status int
		want   any
	}{
		"stored": {
			submit.Answer{Jobs: []submit.JobResult{stored}, Warnings: []string{"paused"}},
			202,
			api.SubmitResponse{JobSummary: row.Summary(), Warnings: []string{"paused"}},
		},
		"deduplicated": {
			submit.Answer{Jobs: []submit.JobResult{live}},
			200,
			api.SubmitResponse{JobSummary: row.Summary(), Warnings: []string{}, Deduplicated: true},
		},
		"replaced": {
			submit.Answer{Jobs: []submit.JobResult{replaced}},
			202,
			api.SubmitResponse{JobSummary: row.Summary(), Warnings: []string{}, Replaced: true},
		},
		"a batch": {
			submit.Answer{Batch: true, Jobs: []submit.JobResult{stored, {Refused: refused}, live, replaced}},
			200,
			api.BatchResponse{Accepted: 3, Rejected: 1, Results: []api.BatchResult{
				{Index: 0, Status: 202, Job: brief}, {Index: 1, Status: refused.Status, Problem: refused}, {Index: 2, Status: 200, Job: brief}, {Index: 3, Status: 202, Job: &briefReplaced},
			}},
		},
		"a batch of which nothing is stored": {
			submit.Answer{Batch: true, Jobs: []submit.JobResult{{Refused: refused}}},
			200,
			api.BatchResponse{Rejected: 1, Results: []api.BatchResult{{Status: refused.Status, Problem: refused}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := renderSubmit(&c.answer)
			if err != nil {
				t.Fatal(err)
			}
			var want bytes.Buffer
			encoder := json.NewEncoder(&want)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(c.want); err != nil {
				t.Fatal(err)
			}
			if want := bytes.TrimSpace(want.Bytes()); got.Status != c.status || !bytes.Equal(got.Body, want) {
				t.Errorf("rendered %d\n%s\nnot %d\n%s", got.Status, got.Body, c.status, want)
			}
		})
	}
}
