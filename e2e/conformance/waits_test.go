package conformance_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// waiting waits until a job waits.
func (x *trial) waiting(job string) api.Job {
	x.Helper()
	var waits api.Job
	stack.Eventually(x.T, time.Minute, "the job waits", func() bool {
		x.driver.alive(x.T)
		waits = stack.Get(x.T, x.c, job)
		return waits.State == api.StateWaiting
	})
	return waits
}

func putsToWait(x *trial) {
	const hour = 3_600_000
	received := func(name string) []step { return []step{{Do: "received", Name: name}} }
	x.work(1)
	// It hears of the other one's wait, and its own signal is there before it waits.
	listener := x.scripted([]step{{Do: "wait", DelayMS: hour, Names: []string{"asked", "never"}}}, []step{{Do: "wait", DelayMS: hour, Names: []string{"asked", "ended"}, All: true}}, received("asked"))
	asks := x.scripted(
		[]step{
			{Do: "checkpoint", Value: 1},
			{Do: "pause", DelayMS: 100},
			{Do: "checkpoint", Value: 7},
			{Do: "then", Jobs: []api.SubmitRequest{x.following()}},
			{Do: "then_signal", Job: listener, Name: "asked", Value: map[string]int{"no": 7}},
			{Do: "wait", DelayMS: hour, Names: []string{"approved", "rejected"}},
		},
		[]step{{Do: "then_signal", Job: listener, Name: "ended"}, {Do: "received", Name: "approved"}},
	)
	job := x.waiting(asks)
	if !slices.Equal(job.WaitingFor, []string{"approved", "rejected"}) || job.WaitUntil == nil || job.Attempt != 0 || string(job.Checkpoint) != "7" || x.followers() != 1 {
		x.Errorf("it waits for %v until %v, attempt %d, checkpoint %s, %d jobs follow", job.WaitingFor, job.WaitUntil, job.Attempt, job.Checkpoint, x.followers())
	}
	sent := x.front.requests(http.MethodPost, asks+"/wait")
	var wait api.WaitRequest
	if len(sent) != 1 || json.Unmarshal(sent[0].body, &wait) != nil || string(wait.Checkpoint) != "7" || len(wait.Submit) != 1 || len(wait.Signal) != 1 || *wait.TimeoutMS != hour {
		x.Errorf("%d waits were sent, %+v", len(sent), wait)
	}
	must[api.Signal](x, command{Do: "signal", Job: asks, Name: "approved", Request: raw(x, map[string]string{"by": "ada"})})
	x.completes(asks, `{"data":{"by":"ada"},"woken_by":"signal"}`, 1, 2)
	x.completes(listener, `{"data":{"no":7},"woken_by":"signal"}`, 1, 3)

	x.completes(x.scripted([]step{{Do: "wait", DelayMS: 1}}, received("nothing")), `{"data":"none","woken_by":"timeout"}`, 1, 2)
	x.completes(x.scripted(received("nothing")), `{"data":"none","woken_by":null}`, 1, 1)

	if e := x.dies(x.scripted([]step{{Do: "wait", DelayMS: hour, Names: []string{"no name"}}}), api.ReasonPermanent); e.Type != "wait" || !strings.Contains(e.Message, "for") {
		x.Errorf("the error of a wait that is refused is %+v", e)
	}
	if e := x.dies(x.scripted([]step{{Do: "then_signal", Job: asks, Name: "late"}, {Do: "return"}}), api.ReasonPermanent); e.Type != "signal" || !strings.Contains(e.Message, "signal[0]") {
		x.Errorf("the error of a signal to a job that has ended is %+v", e)
	}
}

func signals(x *trial) {
	job := stack.Submit(x.T, x.c, x.simple())
	x.front.add(&rule{method: http.MethodPost, suffix: "/signals", times: 1, lose: true})
	first := must[api.Signal](x, command{Do: "signal", Job: job, Name: "paid"})
	if first.First || first.Name != "paid" || first.At.IsZero() { // the one whose answer was lost was the first
		x.Errorf("the repeat of a signal is answered with %+v", first)
	}
	if again := must[api.Signal](x, command{Do: "signal", Job: job, Name: "paid", Request: raw(x, 2)}); again.First || again.At != first.At {
		x.Errorf("a second signal of a name is answered with %+v", again)
	}
	link := must[api.SignalLink](x, command{Do: "signal_link", Job: job, Name: "approved", Title: "Refund?", DelayMS: 3_600_000})
	if left := time.Until(link.ExpiresAt.Time); left <= 0 || left > time.Hour {
		x.Errorf("the link is good for %v", left)
	}
	opened := x.front.URL + "/v1/signal-links/" + path.Base(link.URL)
	response, err := http.Post(opened, "application/json", bytes.NewReader([]byte(`{"data":{"comment":"fine"}}`)))
	if err != nil {
		x.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusAccepted {
		x.Errorf("the link is answered with %s", response.Status)
	}
	claimed := stack.ClaimOne(x.T, x.c, x.queue+"-test", x.queue)
	got := map[string]string{}
	for _, signal := range claimed.Signals {
		got[signal.Name] = string(signal.Data)
	}
	if len(got) != 2 || got["paid"] != "null" || got["approved"] != `{"comment":"fine"}` || claimed.WokenBy != nil {
		x.Errorf("the job has the signals %v, woken by %v", got, claimed.WokenBy)
	}
	if _, err := x.c.Complete(x.Context(), job, api.CompleteRequest{LeaseToken: claimed.LeaseToken}); err != nil {
		x.Fatal(err)
	}
	for _, late := range []command{{Do: "signal", Job: job, Name: "late"}, {Do: "signal_link", Job: job, Name: "late"}} {
		if f := fails(x, late); f.Code != string(problem.JobTerminal) {
			x.Errorf("%s of a job that has ended: %+v", late.Do, f)
		}
	}
}
