package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// written is what a job has written, by the client that is tested: the pieces are in order, and each is there once.
func (x *trial) written(job string) []api.Output {
	x.Helper()
	all := must[[]api.Output](x, command{Do: "output", Job: job})
	last := api.OutputPlace{}
	for _, piece := range all {
		place, ok := api.ParseOutputPlace(piece.ID)
		if !ok || place.Epoch < last.Epoch || place.Epoch == last.Epoch && place.Seq != last.Seq+1 || place.Epoch > last.Epoch && place.Seq != 1 || piece.Gap {
			x.Errorf("after %v comes %+v", last, piece)
		}
		last = place
	}
	return all
}

// textOf is the text of some streams, or of all.
func textOf(all []api.Output, streams ...string) string {
	text := ""
	for _, piece := range all {
		if len(streams) == 0 || strings.Contains(strings.Join(streams, " "), piece.Stream) {
			text += piece.Text
		}
	}
	return text
}

func writesOutput(x *trial) {
	x.work(1)
	write := func(stream, text string) step { return step{Do: "write", Name: stream, Message: text} }

	// It is there while the job runs, before a line is whole; the answer to the first request is lost.
	x.front.add(&rule{method: http.MethodPost, suffix: "/output", times: 1, lose: true})
	talks := x.scripted([]step{
		write("out", "one\n"),
		write("err", "no € mail\x00\n"),
		{Do: "log", Message: "three"},
		write("out", "Password: "),
		{Do: "go"},
		write("out", "none\n"),
		{Do: "return"},
	})
	const before, after = "one\nno € mail\uFFFD\nthree\nPassword: ", "none\n"
	stack.Eventually(x.T, time.Minute, "what a job that runs has written is there", func() bool {
		page, err := x.c.Output(x.Context(), talks, "")
		return err == nil && textOf(page.Items) == before
	})
	_, waiting := x.driver.begin(x.T, command{Do: "go", Job: talks})
	x.driver.answered(x.T, "go", waiting)
	x.completes(talks, "null", 1, 1)
	all := x.written(talks)
	if textOf(all) != before+after || textOf(all, api.OutputErr) != "no € mail\uFFFD\n" || textOf(all, api.OutputLog) != "three\n" {
		x.Errorf("it has written %+v", all)
	}
	sent := x.front.requests(http.MethodPost, talks+"/output")
	if len(sent) < 3 || !bytes.Equal(sent[0].body, sent[1].body) {
		x.Errorf("%d requests, the second is no repeat of the first", len(sent))
	}
	if outcome := x.front.requests(http.MethodPost, talks+"/complete"); len(outcome) != 1 || outcome[0].came.Before(sent[len(sent)-1].answered) {
		x.Errorf("%d outcomes, the first before the output was there", len(outcome))
	}

	// All of many pieces, of an attempt that fails too, in few requests.
	const lines = 620
	many := x.scripted([]step{{Do: "lines", Amount: lines}, {Do: "fail", Message: "again", RetryAfterMS: new(int64(0))}}, []step{write("err", "the end"), {Do: "return"}})
	x.completes(many, "null", 2, 2)
	want := ""
	for n := range lines {
		want += fmt.Sprintf("line %d\n", n+1)
	}
	if all := x.written(many); textOf(all) != want+"the end" || len(all) != lines+1 || all[lines].ID != "2.1" {
		x.Errorf("%d pieces, %d bytes of %d", len(all), len(textOf(all)), len(want))
	}
	if sent := x.front.requests(http.MethodPost, many+"/output"); len(sent) > 20 {
		x.Errorf("%d requests", len(sent))
	}
	large := x.scripted([]step{write("out", strings.Repeat("€", 20_000)), {Do: "return"}})
	x.completes(large, "null", 1, 1)
	if got := textOf(x.written(large)); got != strings.Repeat("€", 20_000) {
		x.Errorf("%d bytes of a large text", len(got))
	}

	// No outcome waits for long for it, no attempt fails because of it, and without any nothing is sent.
	unheard := x.scripted([]step{{Do: "go"}, write("out", "unheard"), {Do: "return"}})
	x.front.add(refuse(http.MethodPost, unheard+"/output", -1, http.StatusServiceUnavailable, problem.CoreUnavailable, 0))
	_, waiting = x.driver.begin(x.T, command{Do: "go", Job: unheard})
	x.driver.answered(x.T, "go", waiting)
	x.completes(unheard, "null", 1, 1)
	silent := x.scripted([]step{{Do: "return"}})
	x.completes(silent, "null", 1, 1)
	if sent := x.front.requests(http.MethodPost, silent+"/output"); len(sent) != 0 || len(x.written(silent)) != 0 {
		x.Errorf("a silent job has sent output %d times", len(sent))
	}
	if job := must[struct{ Output json.RawMessage }](x, command{Do: "get", Job: many}); string(job.Output) != `"2.1"` {
		x.Errorf("the job's last piece is %s", job.Output)
	}
}
