package worker_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// A handler reads the results of the jobs that its own came after, page by page; one that came
// after none costs no call.
func TestParentsGiveTheirResults(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		extract, notify := "extract", "notify"
		asked := []string{}
		b.onParents(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.PathValue("id")+r.URL.Query().Get("page_token"))
			if r.URL.Query().Get("page_token") == "" {
				reply(w, api.Page[api.JobParent]{NextPageToken: new("-next"), Items: []api.JobParent{
					{Ref: &extract, JobID: "p1", State: api.StateCompleted, Result: []byte(`{"rows":3}`)},
					{Ref: &notify, JobID: "p2", State: api.StateDeadLetter},
				}})
				return
			}
			reply(w, api.Page[api.JobParent]{Items: []api.JobParent{{JobID: "p3", State: api.StateCompleted}}})
		})
		type rows struct{ Rows int }
		worker.Handle(b.worker, "sum", func(ctx context.Context, job *worker.Job[struct{}]) (rows, error) {
			parents, err := job.Parents(ctx)
			if err != nil {
				return rows{}, err
			}
			var got rows
			if err := parents.Result("extract", &got); err != nil {
				return rows{}, err
			}
			for ref, want := range map[string]string{"notify": "no result: it is dead_letter", "nobody": `has the ref "nobody"`} {
				if err := parents.Result(ref, &got); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v", ref, err)
				}
			}
			var text string
			if err := parents.Result("extract", &text); err == nil || !strings.Contains(err.Error(), "does not fit") {
				t.Errorf("an object as a text: %v", err)
			}
			if one, ok := parents.Of("notify"); !ok || one.JobID != "p2" || len(parents) != 3 {
				t.Errorf("%+v", parents)
			}
			if job.Workflow.ID != "w1" || job.Workflow.Ref != "sum" || len(job.After) != 1 || *job.After[0].Ref != "extract" {
				t.Errorf("%+v", job.Info)
			}
			return got, nil
		})
		worker.Handle(b.worker, "alone", func(ctx context.Context, job *worker.Job[struct{}]) (int, error) {
			parents, err := job.Parents(ctx)
			if job.Workflow != nil {
				t.Errorf("%+v", job.Workflow)
			}
			return len(parents), err
		})
		b.run(t)
		b.submit("alone", "null")
		sum := b.submit("sum", "null", func(job *api.ClaimedJob) {
			job.Workflow = &api.JobWorkflow{ID: "w1", Ref: "sum"}
			job.Parents = []api.ClaimedParent{{Ref: &extract, JobID: "p1", State: api.StateCompleted}}
		})
		pass(time.Second)
		b.finish(t)
		if len(asked) != 2 || asked[0] != sum || asked[1] != sum+"-next" {
			t.Errorf("asked for %q", asked)
		}
		results := ""
		for _, one := range b.outcomes {
			results += one.kind + string(one.body.Result)
		}
		if !strings.Contains(results, `complete{"Rows":3}`) || !strings.Contains(results, "complete0") {
			t.Errorf("outcomes are %s", results)
		}
	})
}

// A job that a test makes by hand has nobody to ask.
func TestParentsWithoutAWorker(t *testing.T) {
	t.Parallel()
	job := &worker.RawJob{Info: worker.Info{ID: "j1"}}
	if parents, err := job.Parents(t.Context()); err != nil || len(parents) != 0 {
		t.Errorf("%v, %v", parents, err)
	}
	job.After = []api.ClaimedParent{{JobID: "p1"}}
	if _, err := job.Parents(t.Context()); err == nil || !strings.Contains(err.Error(), "not made by a worker") {
		t.Errorf("the error is %v", err)
	}
}
