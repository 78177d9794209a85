package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// speaking has core give output of the watched job, two chunks a page. Where gap is not 0 it is said of that chunk that some before it
// are missing.
func (d *door) speaking(w *watchedJob, gap int64) {
	d.core.On(hop.ReadOutput.Path, func(item coretest.Item) coretest.Result {
		var asked hop.ReadOutputRequest
		if err := json.Unmarshal(item.Request, &asked); err != nil || asked.ID != jobID {
			d.t.Errorf("core got %s: %v", item.Request, err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		last, page := api.OutputPlace{}, api.OutputPage{Items: []api.Output{}}
		if w.job.Output != nil {
			last, _ = api.ParseOutputPlace(*w.job.Output)
		}
		for seq := asked.Seq + 1; seq <= last.Seq && len(page.Items) < 2; seq++ {
			page.Items = append(page.Items, api.Output{ID: fmt.Sprint("1.", seq), Stream: api.OutputOut, Text: fmt.Sprint("<", seq, ">\n"), Gap: seq == gap})
		}
		page.More = asked.Seq+2 < last.Seq
		return coretest.Value(200, page)
	})
}

func says(seq int) func(*api.Job) { return func(j *api.Job) { j.Output = new(fmt.Sprint("1.", seq)) } }

// wantOutput reads the next events: the chunks of these numbers.
func (e *events) wantOutput(seqs ...int) {
	e.t.Helper()
	for _, seq := range seqs {
		for _, want := range []string{"event: output", fmt.Sprint("id: 1.", seq), fmt.Sprint(`data: {"id":"1.`, seq, `","stream":"out","text":"<`, seq, `>\n",`), ""} {
			for e.lines.Scan() && (e.lines.Text() == "retry: 1000" || e.lines.Text() == "" && want != "") {
			}
			if !strings.HasPrefix(e.lines.Text(), want) {
				e.t.Fatalf("the line %q, want %q", e.lines.Text(), want)
			}
		}
	}
}

// A stream has a job's output before the version of the job that has it, each chunk once; one that begins again continues after the last
// that it had.
func TestEventsHaveOutput(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	job := d.watched(api.StateRunning)
	d.speaking(job, 0)
	says(3)(&job.job)
	stream := d.events(eventsPath, d.key("read"))
	stream.wantOutput(1, 2, 3)
	stream.want("job", api.StateRunning)
	job.change(says(4))
	stream.wantOutput(4)
	stream.want("job", api.StateRunning)
	job.change(func(j *api.Job) { j.CancelRequested = true })
	stream.want("job", api.StateRunning)
	job.change(func(j *api.Job) { says(6)(j); j.State = api.StateCompleted })
	stream.wantOutput(5, 6)
	stream.want("end", api.StateCompleted)
	stream.want("", "")

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+eventsPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+d.key("read"))
	request.Header.Set("Last-Event-ID", "1.4")
	again := d.open(request)
	again.wantOutput(5, 6)
	again.want("end", api.StateCompleted)
}

// Output is a page of JSON, or all of it as text.
func TestOutputAsJSONAndAsText(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	job := d.watched(api.StateCompleted)
	d.speaking(job, 4)
	says(5)(&job.job)
	path, key := "/v1/jobs/"+jobID+"/output", d.key("read")
	var seen []string
	for after := "0.0"; ; {
		var page api.OutputPage
		if got := d.do("GET", path+"?after="+after, key, ""); got.status != 200 || json.Unmarshal(got.body, &page) != nil || len(page.Items) == 0 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		for _, one := range page.Items {
			seen, after = append(seen, one.ID), one.ID
		}
		if !page.More {
			break
		}
	}
	if want := []string{"1.1", "1.2", "1.3", "1.4", "1.5"}; !slices.Equal(seen, want) {
		t.Errorf("%v", seen)
	}
	text := d.do("GET", path, key, "", "Accept", "text/plain")
	if want := "<1>\n<2>\n<3>\n\n[... output is missing here ...]\n<4>\n<5>\n"; string(text.body) != want {
		t.Errorf("%q", text.body)
	}
	for name, want := range map[string]string{"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"} {
		if got := text.header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, accept := range []string{"application/json", "*/*", "application/json, text/plain", "nonsense/"} {
		if got := d.do("GET", path, key, "", "Accept", accept); got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", accept, got.header.Get("Content-Type"))
		}
	}
	for _, after := range []string{"", "x", "1", "1.x", "-1.2", "1.2.3"} {
		d.do("GET", path+"?after="+after, key, "").refused(t, 400, problem.InvalidRequest)
	}
}
