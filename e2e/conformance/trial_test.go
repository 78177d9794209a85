package conformance_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// trial is one case with one client.
type trial struct {
	*testing.T
	subject subject
	driver  *driver
	front   *front
	key     string
	// queue is the case's own.
	queue string
	// c is the tests' own client of the gateway, past the front.
	c *client.Client
}

// about completes a command with where to call, and as whom.
func (x *trial) about(c command) command {
	c.URL = x.front.URL
	if c.Key == "" {
		c.Key = x.key
	}
	return c
}

// call has a command carried out and gives its answer, decoded.
func call[T any](x *trial, c command) (T, *failure) {
	x.Helper()
	_, waiting := x.driver.begin(x.T, x.about(c))
	return decoded[T](x, x.driver.answered(x.T, c.Do, waiting))
}

func decoded[T any](x *trial, l line) (T, *failure) {
	x.Helper()
	var answer T
	if l.Error == nil {
		if err := json.Unmarshal(l.OK, &answer); err != nil {
			x.Fatalf("the driver answered %s: %v", l.OK, err)
		}
	}
	return answer, l.Error
}

// must is call for what has to succeed.
func must[T any](x *trial, c command) T {
	x.Helper()
	answer, failed := call[T](x, c)
	if failed != nil {
		x.Fatalf("%s failed: %+v", c.Do, *failed)
	}
	return answer
}

// fails is call for what has to fail.
func fails(x *trial, c command) failure {
	x.Helper()
	answer, failed := call[json.RawMessage](x, c)
	if failed == nil {
		x.Fatalf("%s succeeded: %s", c.Do, answer)
	}
	return *failed
}

func raw(x *trial, value any) json.RawMessage {
	x.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		x.Fatal(err)
	}
	return text
}

// simple is a job of the case's queue.
func (x *trial) simple() api.SubmitRequest { return api.SubmitRequest{Type: "simple", Queue: x.queue} }

// scripted submits a job whose deliveries go by steps, and gives its id.
func (x *trial) scripted(deliveries ...[]step) string {
	x.Helper()
	return stack.Submit(x.T, x.c, api.SubmitRequest{Type: "script", Queue: x.queue, Payload: raw(x, script{Deliveries: deliveries})})
}

// leases sets how long a lease of the case's queue lasts.
func (x *trial) leases(length time.Duration) {
	x.Helper()
	ms := length.Milliseconds()
	if _, err := x.c.PutQueue(x.Context(), x.queue, api.QueueRequest{VisibilityTimeoutMS: &ms}); err != nil {
		x.Fatal(err)
	}
}

// worker is a worker that a driver runs.
type worker struct {
	x      *trial
	driver *driver
	number int
	id     string
	ended  <-chan line
	over   bool
}

// work starts a worker, which stops with the case at the latest.
func (x *trial) work(concurrency int) *worker {
	x.Helper()
	w := x.begin(x.driver, command{Concurrency: concurrency, GraceMS: stack.Patience(time.Minute).Milliseconds()})
	x.Cleanup(func() {
		if w.over {
			return
		}
		x.driver.begin(x.T, command{Do: "stop", Worker: w.number})
		if !x.Failed() { // its handlers may wait for what does not come
			w.stopped()
		}
	})
	return w
}

func (x *trial) begin(d *driver, c command) *worker {
	x.Helper()
	w := &worker{x: x, driver: d, id: x.queue + "-worker"}
	c.Do, c.Queue, c.WorkerID = "work", x.queue, w.id
	w.number, w.ended = d.begin(x.T, x.about(c))
	return w
}

// started waits until the handler of a job has begun, for a delivery.
func (w *worker) started(job string, epoch int64) line {
	w.x.Helper()
	return w.driver.event(w.x.T, "the handler begins", func(l line) bool { return l.Event == "started" && l.Job == job && l.Epoch == epoch })
}

// told waits until the handler of a job has learned that it should stop, and checks why.
func (w *worker) told(job string, epoch int64, cause string) {
	w.x.Helper()
	l := w.driver.event(w.x.T, "the handler is told", func(l line) bool { return l.Event == "told" && l.Job == job && l.Epoch == epoch })
	if l.Cause != cause {
		w.x.Errorf("the handler was told %q, want %q", l.Cause, cause)
	}
}

// goOn lets the handler of a job go on.
func (w *worker) goOn(job string) {
	w.x.Helper()
	_, waiting := w.driver.begin(w.x.T, command{Do: "go", Job: job})
	w.driver.answered(w.x.T, "go", waiting)
}

// stop stops the worker in order.
func (w *worker) stop() {
	w.x.Helper()
	w.driver.begin(w.x.T, command{Do: "stop", Worker: w.number})
	w.stopped()
}

// stopped waits until the worker has stopped without an error, and checks that it has deregistered. It may be listed
// all the same: core registers the worker of a claim, and the one that a stop has aborted can arrive late.
func (w *worker) stopped() {
	w.x.Helper()
	w.over = true
	if l := w.driver.answered(w.x.T, "work", w.ended); l.Error != nil {
		w.x.Errorf("the worker ended with %+v", *l.Error)
	}
	removals := w.x.front.requests(http.MethodDelete, "/v1/workers/"+w.id)
	if !slices.ContainsFunc(removals, func(one exchange) bool { return one.status == http.StatusNoContent }) {
		w.x.Errorf("the worker has not deregistered: %d requests", len(removals))
	}
}

// ends waits for the end of a job.
func (x *trial) ends(job string) api.Job {
	x.Helper()
	var ended api.Job
	stack.Eventually(x.T, time.Minute, "the job ends", func() bool {
		x.driver.alive(x.T)
		ended = stack.Get(x.T, x.c, job)
		return ended.FinishedAt != nil || ended.State == api.StateDeadLetter
	})
	return ended
}

// completes waits for the end of a job, and checks how it ended and at which delivery.
func (x *trial) completes(job, result string, attempt int, epoch int64) {
	x.Helper()
	if ended := x.ends(job); ended.State != api.StateCompleted || string(ended.Result) != result || ended.Attempt != attempt || ended.Epoch != epoch {
		x.Errorf("the job is %s with %s at attempt %d, epoch %d, error %+v; want completed with %s at %d, %d",
			ended.State, ended.Result, ended.Attempt, ended.Epoch, ended.LastError, result, attempt, epoch)
	}
}

// dies waits for a dead letter with an error.
func (x *trial) dies(job, reason string) *api.JobError {
	x.Helper()
	ended := x.ends(job)
	if ended.State != api.StateDeadLetter || ended.DeadReason == nil || *ended.DeadReason != reason || ended.LastError == nil {
		x.Fatalf("the job is %s, reason %v, error %+v; want a dead letter, %s", ended.State, ended.DeadReason, ended.LastError, reason)
	}
	return ended.LastError
}
