package conformance_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

const (
	// quick is how long handlers may take, on average, for jobs to be claimed ahead of them.
	quick = 100 * time.Millisecond
	// aheadRounds is how often a case tries until a job waits behind a slow one: where the machine is busy, even quick handlers may take long.
	aheadRounds = 20
)

// many submits jobs with these scripts, in one request.
func (x *trial) many(scripts ...[]step) []string {
	x.Helper()
	requests := make([]args, len(scripts))
	for i, steps := range scripts {
		requests[i] = args{api.SubmitRequest{Type: "script", Queue: x.queue, Payload: raw(x, script{Deliveries: [][]step{steps}})}}
	}
	answer, err := client.SubmitMany(x.Context(), x.c, requests)
	if err != nil || answer.Rejected > 0 {
		x.Fatal(err, answer.Rejected)
	}
	ids := make([]string, len(scripts))
	for i, result := range answer.Results {
		ids[i] = result.Job.ID
	}
	return ids
}

// times is a list of so many equal scripts.
func times(n int, steps ...step) [][]step {
	list := make([][]step, n)
	for i := range list {
		list[i] = steps
	}
	return list
}

// once checks that jobs are completed, with one attempt each.
func (x *trial) once(ids []string) {
	x.Helper()
	for _, id := range ids {
		if job := x.ends(id); job.State != api.StateCompleted || job.Attempt != 1 {
			x.Errorf("%s is %s at attempt %d", id, job.State, job.Attempt)
		}
	}
}

func claimsAhead(x *trial) {
	const jobs, slots = 400, 4
	ids := x.many(times(jobs, step{Do: "return"})...)
	w := x.work(slots)
	x.once(ids)
	claims := x.front.requests(http.MethodPost, "/v1/claims")
	// A worker that claims for free slots alone needs a claim for each four jobs, and one more that waits.
	if len(claims) > jobs/slots {
		x.Errorf("%d claims for %d jobs", len(claims), jobs)
	}
	for _, claim := range claims {
		var asked api.ClaimRequest
		if err := json.Unmarshal(claim.body, &asked); err != nil || *asked.Max < 1 || *asked.Max > 11*slots {
			x.Errorf("a claim of %s, %v", claim.body, err)
		}
	}
	if len(x.front.requests(http.MethodPost, "/v1/outcomes")) == 0 {
		x.Error("no outcomes have shared a request")
	}
	x.once(x.many(times(10*slots, step{Do: "pause", DelayMS: 10}, step{Do: "return"})...))
	w.driver.mu.Lock()
	defer w.driver.mu.Unlock()
	for _, l := range w.driver.events {
		if l.Event == "started" && l.Worker == w.number && (l.Running < 1 || l.Running > slots) {
			x.Errorf("%d handlers ran at once", l.Running)
		}
	}
}

// behind submits quick jobs, one that takes long, and quick ones behind it.
func (x *trial) behind() (slow string, others []string) {
	x.Helper()
	const before, after = 30, 20
	scripts := append(times(before, step{Do: "return"}), []step{{Do: "go"}, {Do: "return"}})
	ids := x.many(append(scripts, times(after, step{Do: "return"})...)...)
	return ids[before], append(ids[:before:before], ids[before+1:]...)
}

// While the slow one runs, another worker does what was behind it.
func releasesAhead(x *trial) {
	w := x.work(1)
	for range aheadRounds {
		slow, others := x.behind()
		w.started(slow, 1)
		stack.Eventually(x.T, time.Minute, "the others have ended", func() bool {
			answer, err := x.c.Claim(x.Context(), api.ClaimRequest{WorkerID: x.queue + "-other", Queues: []string{x.queue}, Max: new(100), WaitMS: new(int64(0))})
			if err != nil {
				x.Fatal(err)
			}
			for _, job := range answer.Jobs {
				if _, err := x.c.Complete(x.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
					x.Fatal(err)
				}
			}
			return haveEnded(x.T, x.c, others)
		})
		x.once(others)
		w.goOn(slow)
		x.completes(slow, "null", 1, 1)
		for _, id := range others {
			if stack.Get(x.T, x.c, id).Epoch > 1 {
				return // it was released, and claimed again
			}
		}
	}
	x.Errorf("in %d rounds no job waited behind the slow one", aheadRounds)
}

func haveEnded(t *testing.T, c *client.Client, ids []string) bool {
	t.Helper()
	for _, id := range ids {
		if stack.Get(t, c, id).FinishedAt == nil {
			return false
		}
	}
	return true
}

func stopsAhead(x *trial) {
	for range aheadRounds {
		slow, others := x.behind()
		w := x.work(1)
		w.started(slow, 1)
		_, waiting := x.driver.begin(x.T, command{Do: "stop", Worker: w.number})
		x.driver.answered(x.T, "stop", waiting)
		w.goOn(slow)
		w.stopped()
		x.completes(slow, "null", 1, 1)
		// What the claim that the stop cut off has taken was returned when the worker deregistered.
		spent := map[string]int{api.StateQueued: 0, api.StateCompleted: 1}
		for _, id := range others {
			job := stack.Get(x.T, x.c, id)
			if want, ok := spent[job.State]; !ok || job.Attempt != want {
				x.Errorf("after the stop a job is %s at attempt %d", job.State, job.Attempt)
			}
		}
		if x.front.released() {
			return
		}
	}
	x.Errorf("in %d rounds no job waited at the stop", aheadRounds)
}

// released says whether a job was released.
func (f *front) released() bool {
	for _, one := range f.requests(http.MethodPost, "") {
		if strings.HasSuffix(one.path, "/release") || (strings.HasSuffix(one.path, "/outcomes") && strings.Contains(string(one.body), `"release"`)) {
			return true
		}
	}
	return false
}
