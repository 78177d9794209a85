package push_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A job is pushed as the page for receivers says, signed, and its answer is the
// result. The secret is in nothing that is logged.
func TestJobsArePushed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := newDestination(t, says(200, `{"done": 1.50}`))
	f.put(f.tenant, "hooks", d.URL+"/jobs?x=1")
	ids := f.submit(f.tenant, "hooks", 1, func(r *api.SubmitRequest) { r.Tags = []string{"gpu"}; r.User = new("bob") })
	job := f.ends(f.tenant, ids[0], api.StateCompleted)
	if string(job.Result) != `{"done": 1.50}` || job.Attempt != 1 || job.WorkerID == nil || !strings.HasPrefix(*job.WorkerID, "push:") {
		t.Errorf("%s after attempt %d by %v", job.Result, job.Attempt, job.WorkerID)
	}
	got := d.got()[0]
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(got.body, got.header); err != nil {
		t.Error(err)
	}
	if err := verifier.Verify(append(got.body, ' '), got.header); err == nil {
		t.Error("a changed body is taken for signed")
	}
	for name, want := range map[string]string{
		"Webhook-Id": ids[0].String(), "Forgequeue-Job-Id": ids[0].String(), "Forgequeue-Attempt": "1", "Forgequeue-Epoch": "1",
		"Content-Type": "application/json", "X-Correlation-Id": "corr-1", "User-Agent": "ForgeQueue",
		"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
	var body api.PushedJob
	if err := json.Unmarshal(got.body, &body); err != nil {
		t.Fatal(err)
	}
	if body.ID != ids[0].String() || string(body.Payload) != `{"n":1.50}` || *body.User != "bob" || body.Queue != "hooks" || body.Epoch != 1 || len(body.Tags) != 1 {
		t.Errorf("%s", got.body)
	}
	if strings.Contains(string(got.body), "lease") || strings.Contains(f.log.String(), secret) || strings.Contains(f.log.String(), "x=1") {
		t.Errorf("a secret is disclosed: %s\n%s", got.body, f.log.String())
	}
}

// What an answer's status makes of the attempt.
func TestStatusesDecide(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	longText := strings.Repeat("é", api.MaxPushAnswer)
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	asText := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	type want struct {
		state   string
		attempt int
		result  string
		kind    string
		delay   time.Duration
		calls   int
	}
	header := func(status int, name, value string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set(name, value)
			w.WriteHeader(status)
		}
	}
	cases := map[string]struct {
		answer func(http.ResponseWriter, *http.Request, int)
		want   want
	}{
		"json":          {says(200, ` {"a": [1, 2.0]} `), want{api.StateCompleted, 1, `{"a": [1, 2.0]}`, "", 0, 1}},
		"text":          {says(201, `fine "so"`), want{api.StateCompleted, 1, asText(`fine "so"`), "", 0, 1}},
		"nothing":       {says(204, ""), want{api.StateCompleted, 1, "null", "", 0, 1}},
		"too long":      {says(200, longText), want{api.StateCompleted, 1, asText(longText[:api.MaxPushAnswer]), "", 0, 1}},
		"too deep":      {says(200, deep), want{api.StateCompleted, 1, asText(deep), "", 0, 1}},
		"no UTF-8":      {says(200, "\"\xff\x00\""), want{api.StateCompleted, 1, asText("\"\uFFFD\x00\""), "", 0, 1}},
		"gone":          {says(410, "no more"), want{api.StateDeadLetter, 1, "null", "http_410", 0, 1}},
		"unprocessable": {says(422, ""), want{api.StateDeadLetter, 1, "null", "http_422", 0, 1}},
		"busy":          {header(429, "Retry-After", "77"), want{api.StateScheduled, 0, "null", "http_429", 77 * time.Second, 1}},
		"away": {func(w http.ResponseWriter, r *http.Request, n int) {
			header(503, "Retry-After", time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))(w, r, n)
		}, want{api.StateScheduled, 0, "null", "http_503", 90 * time.Second, 1}},
		"away, no time":   {says(503, ""), want{api.StateScheduled, 0, "null", "http_503", time.Second, 1}},
		"away, for years": {header(503, "Retry-After", "99999999999"), want{api.StateScheduled, 0, "null", "http_503", 24 * time.Hour, 1}},
		"broken":          {says(500, "boom \x00"), want{api.StateScheduled, 1, "null", "http_500", time.Second, 1}},
		"not found":       {says(404, ""), want{api.StateScheduled, 1, "null", "http_404", time.Second, 1}},
		"redirect":        {header(307, "Location", "http://127.0.0.1:1/"), want{api.StateScheduled, 1, "null", "http_307", time.Second, 1}},
		"bad gateway":     {says(502, ""), want{api.StateScheduled, 1, "null", "http_502", time.Second, 3}},
		"cut off": {
			func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) },
			want{api.StateScheduled, 1, "null", "connection_lost", time.Second, 3},
		},
		"large header": {header(200, "X", strings.Repeat("x", 64<<10)), want{api.StateScheduled, 1, "null", "answer_refused", time.Second, 1}},
		"back at once": {func(w http.ResponseWriter, r *http.Request, n int) {
			says(map[bool]int{true: 502, false: 200}[n == 1], "1")(w, r, n)
		}, want{api.StateCompleted, 1, "1", "", 0, 2}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDestination(t, c.answer)
			owner := f.newTenant()
			f.put(owner, "hooks", d.URL, patient)
			id := f.submit(owner, "hooks", 1)[0]
			job := f.ends(owner, id, c.want.state)
			got := want{job.State, job.Attempt, string(job.Result), "", 0, len(d.got())}
			if got.result == "" {
				got.result = "null"
			}
			if job.LastError != nil {
				got.kind = job.LastError.Type
			}
			if job.State == api.StateScheduled {
				got.delay = c.want.delay
				if off := time.Until(job.RunAt.Time) - c.want.delay; off < -5*time.Second || off > 3*time.Second+c.want.delay/10 {
					t.Errorf("it waits for %v, want %v", time.Until(job.RunAt.Time), c.want.delay)
				}
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if c.want.state == api.StateDeadLetter && *job.DeadReason != api.ReasonPermanent {
				t.Errorf("dead for %s", *job.DeadReason)
			}
		})
	}
}

// Where a destination cannot take a job for a day, its attempts are spent after all.
func TestDestinationThatIsAwayForADaySpendsAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := newDestination(t, says(503, ""))
	f.put(f.tenant, "hooks", d.URL, patient)
	id := f.submit(f.tenant, "hooks", 1, func(r *api.SubmitRequest) { r.MaxAttempts = new(1) })[0]
	if job := f.ends(f.tenant, id, api.StateScheduled); job.Attempt != 0 {
		t.Errorf("attempt %d", job.Attempt)
	}
	f.exec(`UPDATE jobs SET deferred_since = statement_timestamp() - interval '23 hours 59 minutes 50 seconds'`)
	f.promote()
	celltest.Eventually(t, "another call", func() bool { return len(d.got()) == 2 })
	job := f.ends(f.tenant, id, api.StateScheduled)
	if wait := time.Until(job.RunAt.Time); job.Attempt != 0 || wait > 11*time.Second {
		t.Errorf("attempt %d, waits for %v, and ten seconds of the day are left", job.Attempt, wait)
	}
	f.exec(`UPDATE jobs SET deferred_since = statement_timestamp() - interval '25 hours'`)
	f.promote()
	if job := f.ends(f.tenant, id, api.StateDeadLetter); *job.DeadReason != api.ReasonExhausted {
		t.Errorf("dead for %s", *job.DeadReason)
	}
}

// Quick tries stay within a tenth of a tenant's calls, plus its saved budget.
func TestQuickTriesHaveABudget(t *testing.T) {
	t.Parallel()
	const jobs = 30
	f := newFixture(t)
	d := newDestination(t, says(502, ""))
	f.put(f.tenant, "hooks", d.URL, patient, func(r *api.QueueRequest) { r.MaxAttempts = new(1) })
	f.submit(f.tenant, "hooks", jobs)
	celltest.Eventually(t, "all jobs to be dead", func() bool { return f.count(`SELECT count(*) FROM dead_letters`) == jobs })
	if calls := len(d.got()); calls < jobs+10 || calls > jobs+13 {
		t.Errorf("%d calls for %d jobs", calls, jobs)
	}
}

// After a change of the key secrets are sealed again when they are used.
func TestSecretsAreSealedAgain(t *testing.T) {
	t.Parallel()
	f := newIdleFixture(t)
	d := newDestination(t, says(200, ""))
	f.put(f.tenant, "hooks", d.URL) // sealed with what is now the key before
	var err error
	if f.keys, err = seal.New(strings.Repeat("n", 32), key); err != nil {
		t.Fatal(err)
	}
	f.start(time.Second)
	f.ends(f.tenant, f.submit(f.tenant, "hooks", 1)[0], api.StateCompleted)
	fresh, err := seal.New(strings.Repeat("n", 32))
	if err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "the secret to be sealed anew", func() bool {
		var sealed []byte
		if err := f.direct.QueryRow(t.Context(), `SELECT push_secret FROM queues`).Scan(&sealed); err != nil {
			t.Fatal(err)
		}
		opened, stale, err := fresh.Open(sealed, tenant.QueueKey{Tenant: f.tenant, Name: "hooks"}.SecretPlace())
		return err == nil && !stale && string(opened) == secret
	})
}

// A queue that pushes has nothing for workers, and one whose secret does not open
// nothing for the executor: its jobs wait.
func TestSecretThatDoesNotOpenKeepsJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := newDestination(t, says(200, ""))
	f.put(f.tenant, "hooks", d.URL)
	f.exec(`UPDATE queues SET push_secret = '\x0102', updated_at = clock_timestamp()`)
	if err := f.d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := f.submit(f.tenant, "hooks", 1)[0]
	time.Sleep(700 * time.Millisecond)
	if job := f.get(f.tenant, id); job.State != api.StateQueued || job.Attempt != 0 || len(d.got()) != 0 {
		t.Errorf("%s, attempt %d", job.State, job.Attempt)
	}
	f.put(f.tenant, "hooks", d.URL)
	f.ends(f.tenant, id, api.StateCompleted)
}
