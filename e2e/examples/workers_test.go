package examples_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// oneFile takes a worker of api-docs/examples through all that it promises.
func (e *examples) oneFile(t *testing.T, queue string, command ...string) {
	t.Parallel()
	file, err := filepath.Abs(stack.Repository("api-docs", "examples", command[1]))
	if err != nil {
		t.Fatal(err)
	}
	const lease = 12 * time.Second
	c := e.queue(t, queue, lease)
	url, repeated := e.losing(t)
	start := func() *stack.Process {
		return e.run(t, e.environment("FORGEQUEUE_URL="+url, "WORKER_GRACE=0.1", "PYTHONDONTWRITEBYTECODE=1"), command[0], file, queue)
	}
	worker := start()

	ends(t, c, stack.Submit(t, c, api.SubmitRequest{Type: "greet", Queue: queue, Payload: []byte(`{"name":"Ada"}`)}), api.StateCompleted, `{"hello":"Ada"}`)
	failed := ends(t, c, stack.Submit(t, c, api.SubmitRequest{Type: "greet", Queue: queue, Payload: []byte(`{}`)}), api.ReasonPermanent, "null")
	if failed.LastError == nil || failed.LastError.Type != "Permanent" || failed.LastError.Message != "the payload has no name" {
		t.Errorf("the failure: %+v", failed.LastError)
	}
	ends(t, c, stack.Submit(t, c, once("nap", queue, "null")), api.ReasonExhausted, "null")
	// a result that its type refuses: another try would give the same one
	if _, err := c.PutType(t.Context(), "nap", api.JobTypeRequest{ResultSchema: []byte(`{"properties":{"slept":{"minimum":1}}}`), CheckResults: true}); err != nil {
		t.Fatal(err)
	}
	refused := ends(t, c, stack.Submit(t, c, api.SubmitRequest{Type: "nap", Queue: queue, Payload: []byte(`{"seconds":0}`)}), api.ReasonPermanent, "null")
	if refused.LastError == nil || refused.LastError.Type != "result" || !strings.Contains(refused.LastError.Message, "schema_mismatch") {
		t.Errorf("the refused result: %+v", refused.LastError)
	}
	stranger := stack.Submit(t, c, api.SubmitRequest{Type: "stranger", Queue: queue})

	long := stack.Submit(t, c, api.SubmitRequest{Type: "nap", Queue: queue, Payload: []byte(`{"seconds":3600}`)})
	unwanted := stack.Submit(t, c, api.SubmitRequest{Type: "nap", Queue: queue, Payload: []byte(`{"seconds":3600}`)})
	running(t, c, long)
	running(t, c, unwanted)
	if _, err := c.Cancel(t.Context(), unwanted); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "a cancelled job is let go of", func() bool { return stack.Get(t, c, unwanted).State == api.StateCancelled })
	stack.Eventually(t, time.Minute, "the lease has been extended", func() bool {
		job := stack.Get(t, c, long)
		return job.LeaseExpiresAt != nil && job.LeaseExpiresAt.Sub(job.StartedAt.Time) > lease+time.Second && job.Epoch == 1
	})
	stops(t, worker)
	saidGoodbye(t, c, queue)
	repeated(1)
	if job := stack.Get(t, c, long); job.State != api.StateQueued || job.Attempt != 0 || job.Epoch != 1 {
		t.Errorf("after the stop the job is %s at attempt %d, epoch %d", job.State, job.Attempt, job.Epoch)
	}

	if job := stack.Get(t, c, stranger); job.State != api.StateQueued || job.Epoch != 0 {
		t.Errorf("a job of a type without a handler is %s, epoch %d", job.State, job.Epoch)
	}

	again := start() // a worker without a job has nothing to wait for
	stack.Eventually(t, time.Minute, "it claims", func() bool { return strings.Contains(again.Output(), "claims from "+queue) })
	stops(t, again)
	saidGoodbye(t, c, queue)
}
