package console_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	changingID   = "0190a1b2-0000-7000-8000-000000000054"
	changingForm = "/console/jobs/" + changingID + "/change"
)

// changingAPI has one job, which can be changed by its ETag.
type changingAPI struct {
	job     api.Job
	version int
	scopes  string
	// refuse answers a change, and next happens before one.
	refuse *problem.Problem
	next   func()
	// wrote are the bodies of the changes that came, with their If-Match before them.
	wrote []string
}

func (a *changingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", a.etag())
	var answer any = a.job
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/whoami":
		_, _ = io.WriteString(w, `{"tenant":"t","user":null,"scopes":[`+a.scopes+`],"plan":"p","key_id":"k"}`)
		return
	case "GET /v1/jobs/" + changingID:
	case "GET /v1/jobs/" + changingID + "/explain":
		answer = api.Explanation{State: a.job.State, Job: &a.job}
	case "PATCH /v1/jobs/" + changingID:
		if a.next != nil {
			a.next()
		}
		body, _ := io.ReadAll(r.Body)
		a.wrote = append(a.wrote, r.Header.Get("If-Match")+" "+string(body))
		switch {
		case a.refuse != nil:
			a.refuse.Write(w)
			return
		case a.job.State == api.StateRunning:
			problem.New(problem.JobStarted, "").Write(w)
			return
		case r.Header.Get("If-Match") != a.etag():
			problem.New(problem.PreconditionFailed, "").Write(w)
			return
		}
	default:
		problem.New(problem.NotFound, "There is no such resource.").Write(w)
		return
	}
	to := json.NewEncoder(w)
	to.SetEscapeHTML(false) // as the API
	_ = to.Encode(answer)
}

func (a *changingAPI) etag() string { return fmt.Sprintf(`"v%d"`, a.version) }

func newChanging() *changingAPI {
	return &changingAPI{
		scopes: `"read","submit"`, version: 1,
		job: api.Job{
			JobSummary: api.JobSummary{
				ID: changingID, Type: "report.render", Queue: "reports", State: api.StateScheduled, Priority: 5, MaxAttempts: 3, Tags: []string{"gpu", "eu"},
				Metadata: map[string]string{"order": "<10>"}, CreatedAt: api.At(noon), RunAt: new(api.At(noon.Add(time.Hour + time.Microsecond))),
			},
			Payload: json.RawMessage(`{"to":"ada","note":"a\u202eb <&> ` + "\u202e" + `"}`),
		},
	}
}

// changing signs in to a console in front of an API, and gives the form that changes its job.
func changing(t *testing.T, a *changingAPI) (b *formBrowser, form url.Values) {
	t.Helper()
	made, err := console.New(console.Options{Secret: []byte(strings.Repeat("s", 32)), Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	b = &formBrowser{handler: made.Handler(a)}
	b.post("/console/sign-in", url.Values{"key": {"the-key"}})
	return b, b.changeForm(t, b.send(http.MethodGet, changingForm, nil).Body.String())
}

// changeForm is the form in a page.
func (b *formBrowser) changeForm(t *testing.T, page string) url.Values {
	t.Helper()
	all := formsOf(page)
	i := slices.IndexFunc(all, func(one htmlForm) bool { return one.action == changingForm })
	if i < 0 {
		t.Fatalf("no form to change the job in %s", page)
	}
	return all[i].values
}

// A form that is saved as it was opened changes nothing, whatever the job has; with one field edited it sends that one, for the version
// that it has shown.
func TestAChangeSendsWhatDiffers(t *testing.T) {
	t.Parallel()
	a := newChanging()
	b, form := changing(t, a)
	for name, want := range map[string]string{
		"priority": "5", "queue": "reports", "run_at": "2026-11-20T13:00:00.000001Z", "deadline": "", "max_attempts": "3", "tags": "gpu, eu", "etag": `"v1"`,
		"metadata": "{\r\n  \"order\": \"<10>\"\r\n}", "payload": "{\r\n  \"to\": \"ada\",\r\n  \"note\": \"a\\u202eb <&> \\u202e\"\r\n}",
	} {
		if got := form.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	const page = "/console/jobs/" + changingID
	if got := b.post(changingForm, form); got.Code != http.StatusSeeOther || got.Header().Get("Location") != page+"?note=job-unchanged" || a.wrote != nil {
		t.Errorf("unchanged: %d %v, sent %q", got.Code, got.Header(), a.wrote)
	}
	for _, one := range []struct{ name, value, want string }{
		{"priority", " 9 ", `{"priority":9}`},
		{"queue", "other", `{"queue":"other"}`},
		{"run_at", "2026-11-20T15:00:00+02:00", `{"run_at":"2026-11-20T13:00:00.000000Z"}`},
		{"deadline", "2026-11-21T00:00:00Z", `{"deadline":"2026-11-21T00:00:00.000000Z"}`},
		{"max_attempts", "7", `{"max_attempts":7}`},
		{"tags", "", `{"tags":[]}`},
		{"tags", "eu,\r\ngpu, ", `{"tags":["eu","gpu"]}`},
		{"metadata", "", `{"metadata":{}}`},
		{"metadata", `{"order":"11"}`, `{"metadata":{"order":"11"}}`},
		{"payload", "{\r\n  \"to\": \"<eve>\"\r\n}", `{"payload":{"to":"<eve>"}}`},
		{"tags", " gpu,eu", ""}, // the same, otherwise written
		{"run_at", "2026-11-20T14:00:00.000001+01:00", ""},
		{"metadata", `{"order":"<10>"}`, ""},
	} {
		a.wrote = nil
		edited := cloned(form, one.name, one.value)
		want, note := []string(nil), "job-unchanged"
		if one.want != "" {
			want, note = []string{`"v1" ` + one.want}, "job-changed"
		}
		if got := b.post(changingForm, edited); got.Code != http.StatusSeeOther || got.Header().Get("Location") != page+"?note="+note || !slices.Equal(a.wrote, want) {
			t.Errorf("%s %q: %d %v, sent %q", one.name, one.value, got.Code, got.Header(), a.wrote)
		}
	}
	if text := b.send(http.MethodGet, page+"?note=job-changed", nil).Body.String(); !strings.Contains(text, "The job is changed.") || !strings.Contains(text, `href="`+changingForm+`"`) {
		t.Errorf("the job's page: %s", text)
	}
}

// The largest payload fits in the form, in lines or not, with what a browser makes of it.
func TestAChangeOfALargeJob(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`["` + strings.Repeat("é", api.MaxPayload/2-2) + `"]`, "[" + strings.Repeat("1,", api.MaxPayload/2-2) + "1]", "[" + strings.Repeat(`"",`, api.MaxPayload/3-2) + "1]"} {
		a := newChanging()
		a.job.Payload = json.RawMessage(payload)
		b, form := changing(t, a)
		if got := b.post(changingForm, cloned(form, "priority", "9")); got.Code != http.StatusSeeOther || !slices.Equal(a.wrote, []string{`"v1" {"priority":9}`}) {
			t.Errorf("%.9s: %d, sent %.99q", payload, got.Code, a.wrote)
		}
	}
}

func cloned(form url.Values, fields ...string) url.Values {
	made := url.Values{}
	for name := range form {
		made.Set(name, form.Get(name))
	}
	made.Set("once", fmt.Sprint(fields))
	for i := 0; i < len(fields); i += 2 {
		made.Set(fields[i], fields[i+1])
	}
	return made
}

// What cannot be is said at its field, with what was typed; the API's words too.
func TestWhatAChangeCannotBe(t *testing.T) {
	t.Parallel()
	a := newChanging()
	b, form := changing(t, a)
	for _, one := range []struct{ name, value, want string }{
		{"priority", "high", "not a whole number"},
		{"priority", "", "cannot be removed"},
		{"run_at", "tomorrow", "is not a time: write it such as 2026-11-20T12:00:00Z"},
		{"payload", "{to}", "is not JSON"},
		{"payload", "null", "cannot be removed"},
		{"metadata", `{"order":11}`, "is an object of texts"},
		{"metadata", "null", "is an object of texts"},
	} {
		got := b.post(changingForm, cloned(form, one.name, one.value))
		text := got.Body.String()
		if got.Code != http.StatusBadRequest || a.wrote != nil || !strings.Contains(text, `id="`+one.name+`-said"><strong class="error-text">`) || !strings.Contains(text, one.want) || !strings.Contains(text, "Nothing was saved. Correct what is marked.") {
			t.Errorf("%s %q: %d, sent %q: %s", one.name, one.value, got.Code, a.wrote, text)
		}
		if kept := b.changeForm(t, text); kept.Get(one.name) != one.value || kept.Get("etag") != `"v1"` {
			t.Errorf("%s %q: the form has %v", one.name, one.value, kept)
		}
	}
	a.refuse = problem.New(problem.SchemaMismatch, "The payload does not fit.")
	a.refuse.Errors = []problem.FieldError{{Field: "payload/to", Message: "must be a number"}, {Field: "tags[1]", Message: "is no name"}, {Field: "metadata", Message: "is full"}}
	got := b.post(changingForm, cloned(form, "priority", "6"))
	for _, want := range []string{"Nothing was saved. The payload does not fit.", ">payload/to: must be a number<", ">tags[1]: is no name<", ">is full<", `value="6"`} {
		if text := got.Body.String(); got.Code != http.StatusUnprocessableEntity || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", got.Code, want, text)
		}
	}
	if got := b.post(changingForm, cloned(form, "form", "of another session")); got.Code != http.StatusForbidden {
		t.Errorf("with a form of another session: %d", got.Code)
	}
}

// A job that was changed, or has started, is not overwritten, whether that is seen before or by the change itself. What was typed stays,
// what was not edited follows the job, and the form can be saved again.
func TestAChangeOfAnotherVersion(t *testing.T) {
	t.Parallel()
	other := func(a *changingAPI) {
		a.version++
		a.job.Priority, a.job.Queue, a.job.State, a.job.Payload = 7, "urgent", api.StateQueued, json.RawMessage(`{"to":"bob"}`)
	}
	for _, late := range []bool{false, true} {
		a := newChanging()
		b, form := changing(t, a)
		if late {
			a.next = func() { a.next = nil; other(a) }
		} else {
			other(a)
		}
		got := b.post(changingForm, cloned(form, "priority", "9", "payload", `{"to":"eve"}`))
		text := got.Body.String()
		for _, want := range []string{"The job was changed after this form was opened", "Changed: it is now 7.", "Changed: this is its value now.", "Changed: its value now is below.", "&#34;bob&#34;", "s-queued"} {
			if got.Code != http.StatusPreconditionFailed || !strings.Contains(text, want) {
				t.Errorf("late %v: %d, no %q in %s", late, got.Code, want, text)
			}
		}
		again := b.changeForm(t, text)
		if again.Get("priority") != "9" || again.Get("payload") != `{"to":"eve"}` || again.Get("queue") != "urgent" || again.Get("etag") != `"v2"` {
			t.Errorf("late %v: the form has %v", late, again)
		}
		a.wrote = nil
		if got := b.post(changingForm, again); got.Code != http.StatusSeeOther || !slices.Equal(a.wrote, []string{`"v2" {"priority":9,"payload":{"to":"eve"}}`}) {
			t.Errorf("late %v: again: %d, sent %q", late, got.Code, a.wrote)
		}

		a = newChanging()
		b, form = changing(t, a)
		start := func() { a.version, a.job.State = 5, api.StateRunning }
		if late {
			a.next = start
		} else {
			start()
		}
		got = b.post(changingForm, cloned(form, "priority", "9"))
		text = got.Body.String()
		if got.Code != http.StatusConflict || !strings.Contains(text, `The job has started: it cannot be changed. Nothing was saved. <a href="/console/jobs/`+changingID+`">`) || b.changeForm(t, text).Get("priority") != "9" {
			t.Errorf("late %v: started: %d %s", late, got.Code, text)
		}
	}
}

// Only a job that waits is offered to be changed, to a key that may submit.
func TestWhichJobsCanBeChanged(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		state, queue, scopes string
		offered              bool
	}{
		{api.StateBlocked, "q", `"read","submit"`, true},
		{api.StateScheduled, "q", `"read","submit"`, true},
		{api.StateQueued, "q", `"read","submit"`, true},
		{api.StateWaiting, "q", `"read","submit"`, true},
		{api.StateRunning, "q", `"read","submit"`, false},
		{api.StateCompleted, "q", `"read","submit"`, false},
		{api.StateDeadLetter, "q", `"read","submit"`, false},
		{api.StateQueued, api.WebhookQueue("alerts"), `"read","submit"`, false},
		{api.StateQueued, "q", `"read","manage"`, false},
	} {
		a := newChanging()
		b, _ := changing(t, a)
		a.job.State, a.job.Queue, a.scopes = one.state, one.queue, one.scopes
		if text := b.send(http.MethodGet, "/console/jobs/"+changingID, nil).Body.String(); strings.Contains(text, changingForm) != one.offered {
			t.Errorf("%+v: the job's page: %s", one, text)
		}
		if got := b.send(http.MethodGet, changingForm, nil); (got.Code == http.StatusOK) != one.offered {
			t.Errorf("%+v: %d %v", one, got.Code, got.Header())
		}
	}
}
