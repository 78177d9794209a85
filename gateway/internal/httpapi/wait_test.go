package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// inState is the job that core knows, in a state.
func inState(state string) api.Job {
	return api.Job{JobSummary: api.JobSummary{ID: jobID, State: state}, Payload: json.RawMessage(`{"html":"<b>"}`)}
}

// holding makes core read the job in one state, and answer a wait with another.
func (d *door) holding(now, then string) {
	d.core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, inState(now)) })
	d.core.On(hop.WaitForJob.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, inState(then)) })
}

// state is that of the job in an answer; empty where there is no body.
func (a answer) state(t *testing.T) string {
	t.Helper()
	if len(a.body) == 0 {
		return ""
	}
	var job api.Job
	if err := json.Unmarshal(a.body, &job); err != nil || job.ID != jobID || string(job.Payload) != `{"html":"<b>"}` {
		t.Errorf("body %s: %v", a.body, err)
	}
	return job.State
}

func TestETag(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	d.holding("queued", "queued")
	first := d.do("GET", "/v1/jobs/"+jobID, key, "")
	tag := first.header.Get("ETag")
	if first.status != 200 || len(tag) < 20 || tag[0] != '"' || first.state(t) != "queued" {
		t.Fatalf("status %d, ETag %s", first.status, tag)
	}
	for _, test := range []struct {
		given  []string
		status int
	}{
		{[]string{tag}, 304},
		{[]string{"W/" + tag}, 304},
		{[]string{`"x", ` + tag}, 304},
		{[]string{`"x"`, tag}, 304},
		{[]string{"*"}, 304},
		{[]string{`"x"`}, 200},
		{[]string{""}, 200},
		{[]string{tag[1:]}, 200},
	} {
		var headers []string
		for _, value := range test.given {
			headers = append(headers, "If-None-Match", value)
		}
		got := d.do("GET", "/v1/jobs/"+jobID, key, "", headers...)
		if got.status != test.status || got.header.Get("ETag") != tag || (len(got.body) == 0) != (test.status == 304) {
			t.Errorf("%v: status %d, ETag %s, body %s", test.given, got.status, got.header.Get("ETag"), got.body)
		}
		if test.status == 304 && got.header.Get("Content-Type") != "" {
			t.Errorf("%v: a 304 with a content type", test.given)
		}
	}
	d.holding("running", "running")
	changed := d.do("GET", "/v1/jobs/"+jobID, key, "", "If-None-Match", tag)
	if changed.status != 200 || changed.header.Get("ETag") == tag || changed.state(t) != "running" {
		t.Errorf("after a change: status %d, ETag %s", changed.status, changed.header.Get("ETag"))
	}
	d.core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.NotFound, "") })
	got := d.do("GET", "/v1/jobs/"+jobID, key, "", "If-None-Match", "*")
	if got.refused(t, 404, problem.NotFound); got.header.Get("ETag") != "" {
		t.Error("a problem with an ETag")
	}
}

func TestGetWaits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, prefer, ifNoneMatch string // "same" is the tag of the job as it is
		then                      string
		status                    int
		state, applied            string
		gets, waits               int
	}{
		{"plain", "", "", "running", 200, "queued", "", 1, 0},
		{"held", "wait=20", "", "running", 200, "running", "wait=20", 0, 1},
		{"held to the end", "wait=20", "", "queued", 200, "queued", "wait=20", 0, 1},
		{"too long", "wait=60", "", "running", 200, "running", "wait=25", 0, 1},
		{"no time", "wait=0", "", "running", 200, "queued", "wait=0", 1, 0},
		{"malformed", "wait=soon", "", "running", 200, "queued", "", 1, 0},
		{"another preference", "respond-async", "", "running", 200, "queued", "", 1, 0},
		{"changed already", "wait=20", `"old"`, "running", 200, "queued", "wait=20", 1, 0},
		{"unchanged, then changed", "wait=20", "same", "running", 200, "running", "wait=20", 1, 1},
		{"unchanged for good", "wait=20", "same", "queued", 304, "", "wait=20", 1, 1},
		{"unchanged, no time", "wait=0", "same", "running", 304, "", "wait=0", 1, 0},
		{"unchanged, no wait", "", "same", "running", 304, "", "", 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			d.holding("queued", test.then)
			key := d.key("read")
			tag := test.ifNoneMatch
			if tag == "same" {
				tag = d.do("GET", "/v1/jobs/"+jobID, key, "").header.Get("ETag")
				test.gets++
			}
			var headers []string
			for name, value := range map[string]string{"Prefer": test.prefer, "If-None-Match": tag} {
				if value != "" {
					headers = append(headers, name, value)
				}
			}
			got := d.do("GET", "/v1/jobs/"+jobID, key, "", headers...)
			if got.status != test.status || got.state(t) != test.state || got.header.Get("Preference-Applied") != test.applied || got.header.Get("ETag") == "" {
				t.Errorf("status %d %s, headers %v", got.status, got.body, got.header)
			}
			gets, waits := len(d.core.Requests(hop.GetJob.Path)), len(d.core.Requests(hop.WaitForJob.Path))
			if gets != test.gets || waits != test.waits {
				t.Fatalf("core was asked %d times and held %d times", gets, waits)
			}
			if waits == 0 {
				return
			}
			seen := ""
			if tag != "" {
				seen = "queued"
			}
			if sent := last[hop.WaitForJobRequest](d, hop.WaitForJob.Path); sent.ID != jobID || sent.Seen != seen || sent.Ended {
				t.Errorf("core got %+v", sent)
			}
			d.heldFor(test.applied)
		})
	}
}

// heldFor checks that core may wait as long as Preference-Applied says, less what
// has passed since, and that the call itself may take its usual time beyond that.
func (d *door) heldFor(applied string) {
	d.t.Helper()
	var seconds, left int64
	_, _ = fmt.Sscanf(applied, "wait=%d", &seconds)
	wait := last[hop.WaitForJobRequest](d, hop.WaitForJob.Path).WaitMS
	if wait > seconds*1000 || wait < seconds*1000-5000 {
		d.t.Errorf("core waits for %d ms of %d s", wait, seconds)
	}
	header := d.core.Requests(hop.WaitForJob.Path)[0].Header.Get(hop.TimeoutHeader)
	if _, err := fmt.Sscan(header, &left); err != nil || left <= wait+5000 || left > wait+10_000 {
		d.t.Errorf("core may take %s ms for a wait of %d ms", header, wait)
	}
}

// The wait is counted from the request's arrival: what the read took is gone.
func TestWaitIsCountedFromTheArrival(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.holding("queued", "queued")
	key := d.key("read")
	tag := d.do("GET", "/v1/jobs/"+jobID, key, "").header.Get("ETag")
	d.core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result {
		time.Sleep(1100 * time.Millisecond)
		return coretest.Value(200, inState("queued"))
	})
	got := d.do("GET", "/v1/jobs/"+jobID, key, "", "If-None-Match", tag, "Prefer", "wait=1")
	if got.status != 304 || len(d.core.Requests(hop.WaitForJob.Path)) != 0 {
		t.Errorf("status %d, held %d times", got.status, len(d.core.Requests(hop.WaitForJob.Path)))
	}
	d.do("GET", "/v1/jobs/"+jobID, key, "", "If-None-Match", tag, "Prefer", "wait=20")
	if wait := last[hop.WaitForJobRequest](d, hop.WaitForJob.Path).WaitMS; wait > 18_900 {
		t.Errorf("core waits for %d ms of 20 s", wait)
	}
}

// The usual timeout does not cut a wait short.
func TestWaitOutlastsTheTimeout(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *httpapi.Options) { o.Timeout = 300 * time.Millisecond })
	slow := func(coretest.Item) coretest.Result {
		time.Sleep(700 * time.Millisecond)
		return coretest.Value(200, inState("completed"))
	}
	d.core.On(hop.WaitForJob.Path, slow)
	d.core.On(hop.GetJob.Path, slow)
	d.accept()
	key := d.key("read", "submit")
	if got := d.do("GET", "/v1/jobs/"+jobID, key, "", "Prefer", "wait=20"); got.status != 200 {
		t.Errorf("status %d %s", got.status, got.body)
	}
	if got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`, "Prefer", "wait=20"); got.status != 200 {
		t.Errorf("status %d %s", got.status, got.body)
	}
	d.do("GET", "/v1/jobs/"+jobID, key, "").refused(t, 503, problem.CoreUnavailable)
}

func TestWaitRefused(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	d.core.On(hop.WaitForJob.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.NotFound, "core's words") })
	p := d.do("GET", "/v1/jobs/"+jobID, key, "", "Prefer", "wait=20").refused(t, 404, problem.NotFound)
	malformed := d.do("GET", "/v1/jobs/nonsense", key, "", "Prefer", "wait=20").refused(t, 404, problem.NotFound)
	if p.Detail != malformed.Detail {
		t.Errorf("unknown %q, malformed %q", p.Detail, malformed.Detail)
	}
}

func TestSubmitWaits(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	stored := json.RawMessage(`{"id":"` + jobID + `","state":"queued","warnings":[]}`)
	var result atomic.Pointer[coretest.Result]
	d.core.On(hop.SubmitJobs.Path, func(coretest.Item) coretest.Result { return *result.Load() })
	key := d.key("submit")
	fresh := coretest.Value(202, stored)
	replayed := fresh
	replayed.Replayed = true
	found := coretest.Value(200, stored)
	waited := 0
	for _, test := range []struct {
		name    string
		submit  coretest.Result
		prefer  string
		then    string // the state after the wait; "?" is a core that fails
		status  int
		applied string
		waits   int
	}{
		{"ended in time", fresh, "wait=20", "completed", 200, "wait=20", 1},
		{"dead in time", fresh, "wait=20", "dead_letter", 200, "wait=20", 1},
		{"cancelled in time", fresh, "wait=99", "cancelled", 200, "wait=25", 1},
		{"not in time", fresh, "wait=20", "running", 202, "wait=20", 1},
		{"the wait fails", fresh, "wait=20", "?", 202, "", 1},
		{"no time", fresh, "wait=0", "completed", 202, "wait=0", 0},
		{"no preference", fresh, "", "completed", 202, "", 0},
		{"malformed", fresh, "wait=x", "completed", 202, "", 0},
		{"a replay", replayed, "wait=20", "completed", 202, "", 0},
		{"a dedupe hit", found, "wait=20", "completed", 200, "", 0},
	} {
		result.Store(&test.submit)
		d.core.On(hop.WaitForJob.Path, func(coretest.Item) coretest.Result {
			if test.then == "?" {
				return coretest.Refuse(problem.Overloaded, "not now")
			}
			return coretest.Value(200, inState(test.then))
		})
		headers := []string{"Idempotency-Key", "k"}
		if test.prefer != "" {
			headers = append(headers, "Prefer", test.prefer)
		}
		got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`, headers...)
		waited += test.waits
		if n := len(d.core.Requests(hop.WaitForJob.Path)); n != waited {
			t.Fatalf("%s: %d waits so far, want %d", test.name, n, waited)
		}
		if got.status != test.status || got.header.Get("Preference-Applied") != test.applied {
			t.Errorf("%s: status %d, headers %v", test.name, got.status, got.header)
		}
		whole := test.waits == 1 && test.status == 200
		if whole && got.state(t) != test.then || !whole && string(got.body) != string(stored) {
			t.Errorf("%s: body %s", test.name, got.body)
		}
		if location := got.header.Get("Location"); (location == "/v1/jobs/"+jobID) != (test.submit.Status == 202) {
			t.Errorf("%s: Location %q", test.name, location)
		}
		if test.waits == 1 {
			if sent := last[hop.WaitForJobRequest](d, hop.WaitForJob.Path); sent.ID != jobID || !sent.Ended || sent.Seen != "" || sent.WaitMS < 15_000 {
				t.Errorf("%s: core got %+v", test.name, sent)
			}
		}
	}
}

// A core that goes away after it has stored the job takes nothing back.
func TestSubmitStandsWhenCoreLeaves(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	d.core.Raw(hop.WaitForJob.Path, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	got := d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"a"}`, "Prefer", "wait=5")
	if got.status != 202 || got.header.Get("Preference-Applied") != "" || got.header.Get("Location") == "" {
		t.Errorf("status %d %s, headers %v", got.status, got.body, got.header)
	}
}
