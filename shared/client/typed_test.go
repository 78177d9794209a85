package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// note is arguments without options; report has some.
type note struct {
	Text string `json:"text"`
}

func (note) JobType() string { return "note" }

type report struct {
	Day   string `json:"day"`
	Pages int    `json:"pages,omitempty"`
}

func (report) JobType() string { return "report" }

func (r report) JobOptions() client.JobOptions {
	return client.JobOptions{
		Queue: "reports", Priority: new(0), MaxAttempts: 5, Timeout: time.Minute, Tags: []string{"pdf"}, User: "ada",
		Metadata: map[string]string{"day": r.Day}, Retry: client.Retry{Base: time.Second, Curve: api.CurveConstant}, Unique: true,
	}
}

// bare is a report without options.
type bare struct {
	Day string `json:"day"`
}

func (bare) JobType() string { return "report" }

// cyclic cannot be written as JSON.
type cyclic struct{ Self func() }

func (cyclic) JobType() string { return "cyclic" }

func TestARequestIsMadeOfArgumentsAndOptions(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		args    client.JobArgs
		options []client.JobOptions
		want    string
	}{
		"no options": {note{"<a>"}, nil, `{"type":"note","payload":{"text":"<a>"}}`},
		"the type's": {report{Day: "mon"}, nil, `{"type":"report","queue":"reports","payload":{"day":"mon"},"priority":0,"max_attempts":5,"timeout_ms":60000,` +
			`"retry":{"base_ms":1000,"curve":"constant"},"tags":["pdf"],"user":"ada","metadata":{"day":"mon"},` +
			`"dedupe_key":"unique:a66a6f4b0a4ee74f3122abfdba50231e265c5e3e62d830bf77727055a2db8645"}`},
		"the call's go before": {
			report{Day: "mon"},
			[]client.JobOptions{
				{Queue: "late", Delay: time.Hour, Tags: []string{}, Metadata: map[string]string{}, DedupeKey: "d", MaxAttempts: 1, Retry: client.Retry{Jitter: new(0.0)}},
				{RunAt: at, Deadline: at, Priority: new(9), User: "bob", Timeout: time.Second, After: []api.Dependency{{JobID: "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}}},
			},
			`{"type":"report","queue":"late","payload":{"day":"mon"},"priority":9,"run_at":"2026-11-23T12:00:00.000000Z","deadline":"2026-11-23T12:00:00.000000Z","max_attempts":1,"timeout_ms":1000,` +
				`"retry":{"jitter":0},"tags":[],"user":"bob","metadata":{},"dedupe_key":"d","after":[{"job_id":"01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}]}`,
		},
		"the call's key and costs": {
			note{"a"},
			[]client.JobOptions{{Key: "acme", KeyWeight: 2, Costs: api.Amounts{"openai": 7}}},
			`{"type":"note","payload":{"text":"a"},"key":"acme","key_weight":2,"costs":{"openai":7}}`,
		},
		"what becomes of a live one": {
			note{"a"},
			[]client.JobOptions{{DedupeKey: "d", OnLive: api.OnLiveExtend, MaxDelay: time.Minute}},
			`{"type":"note","payload":{"text":"a"},"dedupe":{"key":"d","on_live":"extend","max_delay_ms":60000}}`,
		},
		"a bound stays with its mode": {
			note{"a"},
			[]client.JobOptions{{DedupeKey: "d", OnLive: api.OnLiveExtend, MaxDelay: time.Minute}, {OnLive: api.OnLiveExtend}, {MaxDelay: time.Hour}},
			`{"type":"note","payload":{"text":"a"},"dedupe":{"key":"d","on_live":"extend","max_delay_ms":3600000}}`,
		},
		"another mode has no bound": {
			note{"a"},
			[]client.JobOptions{{DedupeKey: "d", OnLive: api.OnLiveExtend, MaxDelay: time.Minute}, {OnLive: api.OnLiveFail}},
			`{"type":"note","payload":{"text":"a"},"dedupe":{"key":"d","on_live":"fail"}}`,
		},
		"unique arguments that replace": {
			bare{"mon"},
			[]client.JobOptions{{Unique: true, OnLive: api.OnLiveReplace}},
			`{"type":"report","payload":{"day":"mon"},"dedupe":{"key":"unique:a66a6f4b0a4ee74f3122abfdba50231e265c5e3e62d830bf77727055a2db8645","on_live":"replace"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, err := client.Request(test.args, test.options...)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			encoder := json.NewEncoder(&got)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(request); err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(got.String()) != test.want {
				t.Errorf("got  %swant %s", got.String(), test.want)
			}
			if fields := request.Validate("", at); len(fields) > 0 {
				t.Errorf("the server would refuse it: %v", fields)
			}
		})
	}
	for _, args := range []client.JobArgs{nil, cyclic{}} {
		if _, err := client.Request(args); err == nil {
			t.Errorf("%T is accepted", args)
		}
	}
	if _, err := client.Request(note{}, client.JobOptions{UniquePeriod: -time.Hour}); err == nil {
		t.Error("a negative period is accepted")
	}
}

// A mode without a key is sent, so that the server refuses it: without it the job would be another one.
func TestAModeWithoutAKeyIsSent(t *testing.T) {
	t.Parallel()
	request, err := client.Request(note{"a"}, client.JobOptions{OnLive: api.OnLiveFail})
	if err != nil || request.Dedupe == nil || request.Dedupe.Key != "" || len(request.Validate("", time.Now())) == 0 {
		t.Errorf("%+v, %v", request.Dedupe, err)
	}
}

// What is said is sent: a duration below a millisecond is not none, and a negative one is
// for the server to refuse.
func TestDurationsAreNotLost(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int64{time.Nanosecond: 1, time.Millisecond: 1, 1500 * time.Microsecond: 2, -time.Nanosecond: -1, -time.Second: -1000} {
		request, err := client.Request(note{}, client.JobOptions{Timeout: d, Delay: d, Retry: client.Retry{Base: d, Cap: d}})
		if err != nil {
			t.Fatal(err)
		}
		if got := []int64{*request.TimeoutMS, *request.DelayMS, *request.Retry.BaseMS, *request.Retry.CapMS}; fmt.Sprint(got) != fmt.Sprint([]int64{want, want, want, want}) {
			t.Errorf("%v is %v ms, want %d", d, got, want)
		}
	}
}

func TestSubmitIsTyped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { summed(w, http.StatusAccepted, api.StateQueued) })
		job, err := client.Submit(t.Context(), s.client, note{"a"}, client.JobOptions{Queue: "q"}, client.WithIdempotencyKey("k"))
		if err != nil || job.ID != "j1" {
			t.Fatalf("%+v, %v", job, err)
		}
		if got := s.all()[0]; got.Body != `{"type":"note","queue":"q","payload":{"text":"a"}}` || got.Header.Get("Idempotency-Key") != "k" {
			t.Errorf("the request is %+v", got)
		}
		if _, err := client.Submit(t.Context(), s.client, cyclic{}); err == nil || len(s.all()) != 1 {
			t.Errorf("arguments that are no JSON: %v", err)
		}
	})
}

type pages struct{ Pages int }

func TestAResultIsTyped(t *testing.T) {
	t.Parallel()
	ended := func(state, more string) string {
		return `{"id":"j1","type":"report","state":"` + state + `"` + more + `}`
	}
	for name, test := range map[string]struct {
		job  string
		want pages
		err  string
	}{
		"a result":     {ended("completed", `,"result":{"Pages":7}`), pages{7}, ""},
		"null":         {ended("completed", `,"result":null`), pages{}, ""},
		"another type": {ended("completed", `,"result":"seven"`), pages{}, "the result of job j1 does not fit a client_test.pages"},
		"cancelled":    {ended("cancelled", ``), pages{}, "job j1 of type report is cancelled"},
		"dead": {
			ended("dead_letter", `,"dead_reason":"exhausted","last_error":{"type":"timeout","message":"too slow"}`),
			pages{},
			"job j1 of type report is dead_letter (exhausted): timeout: too slow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						w.Header().Set("Preference-Applied", "wait=20")
					}
					answer(w, http.StatusOK, json.RawMessage(test.job))
				})
				waited, waitErr := client.Wait[pages](t.Context(), s.client, "j1")
				both, bothErr := client.SubmitAndWait[pages](t.Context(), s.client, report{})
				for _, got := range []struct {
					result pages
					err    error
				}{{waited, waitErr}, {both, bothErr}} {
					if got.result != test.want || (got.err == nil) != (test.err == "") || got.err != nil && !strings.Contains(got.err.Error(), test.err) {
						t.Errorf("%+v, %v", got.result, got.err)
					}
				}
				end, ok := errors.AsType[*client.EndedError](waitErr)
				if name == "dead" && (!ok || end.State != api.StateDeadLetter || end.Reason != api.ReasonExhausted || end.Job.LastError.Message != "too slow") {
					t.Errorf("%+v", end)
				}
				if ok && name != "dead" && name != "cancelled" {
					t.Errorf("%s is an EndedError: %v", name, end)
				}
			})
		})
	}
}

func TestSubmitAndWaitIsRefusedTyped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { refuse(w, problem.Forbidden) })
		if _, err := client.SubmitAndWait[pages](t.Context(), s.client, report{}); client.Status(err) != http.StatusForbidden {
			t.Error(err)
		}
		if _, err := client.SubmitAndWait[pages](t.Context(), s.client, cyclic{}); err == nil || len(s.all()) != 1 {
			t.Error(err)
		}
	})
}

// The keys are for good: another program, or this one's next version, makes the same.
func TestUniqueKeysAreStable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 25, 1, 30, 0, 0, time.FixedZone("CET", 2*3600)) // 24 November, 23:30 UTC; a Tuesday
	for _, test := range []struct {
		args   client.JobArgs
		period time.Duration
		lines  string
	}{
		{note{"a"}, 0, "note\n{\"text\":\"a\"}\n"},
		{note{"a"}, 24 * time.Hour, "note\n{\"text\":\"a\"}\n2026-11-24T00:00:00Z"},
		{note{"a"}, 168 * time.Hour, "note\n{\"text\":\"a\"}\n2026-11-23T00:00:00Z"},
		{note{"<\u2028\b\f\n\r\t\x01\"\\ü😀"}, 0, "note\n{\"text\":\"<\u2028\\b\\f\\n\\r\\t\\u0001\\\"\\\\ü😀\"}\n"},
	} {
		got, err := client.UniqueKey(test.args, test.period, at)
		if err != nil || got != sum(test.lines) {
			t.Errorf("%+v by %v: %s, want the sum of %q (%v)", test.args, test.period, got, test.lines, err)
		}
	}
	const order = `{"z":[1,2.50,9007199254740993,-1e400,true,null,{}],"a":{"\ufb33":1,"\ud83d\ude00":2,"b":""}}`
	key, err := client.UniqueKey(raw(order), 0, at)
	// By UTF-16 the surrogates of U+1F600 come before U+FB33.
	if want := sum("raw\n" + `{"a":{"b":"","😀":2,"` + "\ufb33" + `":1},"z":[1,2.50,9007199254740993,-1e400,true,null,{}]}` + "\n"); err != nil || key != want {
		t.Errorf("%s, want %s (%v)", key, want, err)
	}
	if _, err := client.UniqueKey(cyclic{}, 0, at); err == nil {
		t.Error("arguments that are no JSON have a key")
	}
}

// raw is arguments of any JSON.
type raw string

func (raw) JobType() string { return "raw" }

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// The period is the one in which the job may start, not the one of the submit.
func TestAUniquePeriodIsThatOfTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it is midnight UTC, 1 January 2000
		key := func(options ...client.JobOptions) string {
			request, err := client.Request(note{"a"}, append([]client.JobOptions{{UniquePeriod: 24 * time.Hour}}, options...)...)
			if err != nil {
				t.Fatal(err)
			}
			return *request.DedupeKey
		}
		today, tomorrow := key(), key(client.JobOptions{Delay: 24 * time.Hour})
		if today == tomorrow || tomorrow != key(client.JobOptions{RunAt: time.Now().Add(25 * time.Hour)}) {
			t.Errorf("%s and %s", today, tomorrow)
		}
		<-time.After(23 * time.Hour)
		if key() != today {
			t.Error("another key on the same day")
		}
		<-time.After(time.Hour)
		if key() != tomorrow {
			t.Error("another key tomorrow than was foreseen")
		}
	})
}

func TestTheLoggerIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			switch {
			case n == 0:
				breakOff(w)
			case r.URL.Path == "/v1/jobs/batch":
				answer(w, http.StatusOK, api.BatchResponse{Results: []api.BatchResult{{Status: 400}, {Job: &api.BatchJob{ID: "j2"}}}})
			default:
				answer(w, http.StatusOK, api.SubmitResponse{
					JobSummary: api.JobSummary{ID: "j1", Type: "note", Queue: "q"}, Warnings: []string{"The queue is paused."},
				})
			}
		}, func(o *client.Options) { o.Logger = logger })
		if _, err := client.Submit(t.Context(), s.client, note{"secret"}, client.JobOptions{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.SubmitMany(t.Context(), s.client, []note{{"secret"}, {"secret"}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`level=WARN msg="call is tried again" call="POST /v1/jobs" tries=1 wait_ms=`,
			`level=WARN msg="submit has a warning" job_id=j1 type=note queue=q warning="The queue is paused."`,
			"level=DEBUG msg=submitted job_id=j1 type=note queue=q\n",
			"level=DEBUG msg=submitted job_id=j2 type=note queue=default\n",
		} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log has not one %s:\n%s", want, log.String())
			}
		}
		if strings.Contains(log.String(), "secret") || strings.Count(log.String(), "\n") != 4 {
			t.Errorf("the log is\n%s", log.String())
		}
	})
}

func TestFromEnv(t *testing.T) {
	for _, name := range []string{"FORGEQUEUE_URL", "FORGEQUEUE_API_KEY", "FORGEQUEUE_API_KEY_FILE"} {
		t.Setenv(name, "")
	}
	if _, err := client.FromEnv(); err == nil || !strings.Contains(err.Error(), "FORGEQUEUE_URL is not set") || !strings.Contains(err.Error(), "FORGEQUEUE_API_KEY is not set") {
		t.Errorf("nothing is set: %v", err)
	}
	t.Setenv("FORGEQUEUE_URL", "http://127.0.0.1:8080")
	file := writeFile(t, "\ufefffq_file\n")
	t.Setenv("FORGEQUEUE_API_KEY_FILE", file)
	var got client.Options
	look := func(o *client.Options) { got = *o }
	if _, err := client.FromEnv(look); err != nil || got.APIKey != "fq_file" || got.URL != "http://127.0.0.1:8080" {
		t.Errorf("%+v, %v", got, err)
	}
	t.Setenv("FORGEQUEUE_API_KEY", "fq_env")
	if _, err := client.FromEnv(look); err != nil || got.APIKey != "fq_env" {
		t.Errorf("%+v, %v", got, err)
	}
	t.Setenv("FORGEQUEUE_API_KEY", "")
	for _, path := range []string{writeFile(t, "\n"), writeFile(t, "f\x00q\x00"), file + ".none"} {
		t.Setenv("FORGEQUEUE_API_KEY_FILE", path)
		if _, err := client.FromEnv(); err == nil || !strings.Contains(err.Error(), "FORGEQUEUE_API_KEY_FILE: ") || strings.Contains(err.Error(), "URL") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestMiddlewareSeesEverySubmit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		var failed error
		outer := func(next client.SubmitFunc) client.SubmitFunc {
			return func(ctx context.Context, s *client.Submission) error {
				before := len(s.Jobs)
				err := next(ctx, s)
				failed = err
				seen = append(seen, fmt.Sprint(before, s.Jobs[0].Type, s.Jobs[before-1].Queue, s.IDs, s.CorrelationID))
				return err
			}
		}
		inner := func(next client.SubmitFunc) client.SubmitFunc {
			return func(ctx context.Context, s *client.Submission) error {
				for _, job := range s.Jobs {
					job.Queue = "changed"
				}
				s.Traceparent = "tp"
				return next(ctx, s)
			}
		}
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			switch {
			case n == 6:
				refuse(w, problem.QueueFull)
			case r.URL.Path == "/v1/jobs/batch":
				answer(w, http.StatusOK, api.BatchResponse{Results: []api.BatchResult{{Job: &api.BatchJob{ID: "b0"}}, {Status: 400}}})
			default:
				w.Header().Set("Preference-Applied", "wait=20")
				answer(w, http.StatusOK, api.Job{JobSummary: api.JobSummary{ID: "j1", State: api.StateCompleted}})
			}
		}, func(o *client.Options) { o.Middleware = []func(client.SubmitFunc) client.SubmitFunc{outer, inner} })
		c, ctx, one := s.client, t.Context(), api.SubmitRequest{Type: "t"}
		jobs := []api.SubmitRequest{one, one}
		workflow := client.Workflow().Add("a", one)
		option := client.WithCorrelationID("c")
		for n, call := range []func() error{
			func() error { _, err := c.Submit(ctx, one, option); return err },
			func() error { _, err := c.SubmitAndWait(ctx, one, option); return err },
			func() error { _, err := c.SubmitBatch(ctx, api.BatchRequest{Jobs: jobs}, option); return err },
			func() error { _, err := c.SubmitWorkflow(ctx, workflow, option); return err },
			func() error { _, err := c.AddToWorkflow(ctx, "w", workflow, option); return err },
			func() error { _, err := c.Rerun(ctx, "j0", api.RerunRequest{SubmitRequest: one}, option); return err },
		} {
			if err := call(); err != nil {
				t.Errorf("call %d: %v", n, err)
			}
		}
		if _, err := c.Submit(deadline(t, time.Millisecond), one, option); client.Status(failed) != http.StatusTooManyRequests || !errors.Is(err, failed) {
			t.Errorf("a refusal: the middleware got %v, the caller %v", failed, err)
		}
		want := "1tchanged[j1]c|1tchanged[j1]c|2tchanged[b0 ]c|1tchanged[]c|1tchanged[]c|1tchanged[j1]c|1tchanged[]c"
		if got := strings.ReplaceAll(strings.Join(seen, "|"), " t", "t"); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("seen %s, want %s", got, want)
		}
		for _, got := range s.all() {
			if !strings.Contains(got.Body, `"queue":"changed"`) || strings.Contains(got.Body, `"type":"t"}`) || got.Header.Get("Traceparent") != "tp" {
				t.Errorf("sent %+v", got)
			}
		}
		if request, _ := workflow.Request(); jobs[0].Queue != "" || one.Queue != "" || request.Jobs[0].Queue != "" {
			t.Error("the caller's jobs were changed")
		}
	})
	if _, err := client.New(client.Options{URL: "http://a", APIKey: "k", Middleware: []func(client.SubmitFunc) client.SubmitFunc{nil}}); err == nil {
		t.Error("a nil middleware is accepted")
	}
}
