package workertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
	"github.com/forgequeue/forgequeue/shared/worker/workertest"
)

func TestTheJobIsAsTheOptionsSay(t *testing.T) {
	t.Parallel()
	var got *worker.Job[account]
	look := func(_ context.Context, job *worker.Job[account]) (any, error) { got = job; return nil, nil }
	outcome := workertest.Run(t.Context(), look, account{Email: "<ada>"})
	if !outcome.Completed() || outcome.Result != nil || string(outcome.Request.Result) != "null" {
		t.Errorf("the outcome is %v", outcome)
	}
	if got.Payload.Email != "<ada>" || string(got.Raw) != `{"email":"<ada>"}` || got.Attempt != 1 || got.MaxAttempts != 3 ||
		got.Queue != "default" || got.Type != workertest.Type || got.ID == "" || got.Metadata == nil {
		t.Errorf("the job is %+v", got)
	}
	_ = workertest.Run(t.Context(), look, account{}, workertest.WithMaxAttempts(2), workertest.WithAttempt(5), workertest.WithUser("bob"),
		workertest.WithMetadata("a", "1"), workertest.WithMetadata("b", "2"), workertest.WithPayload(`{"email":"raw"}`),
		workertest.WithJob(func(job *api.ClaimedJob) { job.Tags = []string{"gpu"} }))
	if got.Attempt != 5 || got.MaxAttempts != 5 || got.Epoch != 5 || got.User != "bob" || got.Metadata["a"]+got.Metadata["b"] != "12" ||
		got.Payload.Email != "raw" || got.Tags[0] != "gpu" {
		t.Errorf("the job is %+v", got)
	}
}

// letter is arguments with options.
type letter struct {
	To string `json:"to"`
}

func (letter) JobType() string { return "letter" }

func (l letter) JobOptions() client.JobOptions {
	return client.JobOptions{
		Queue: "mail", Priority: new(0), MaxAttempts: 7, Timeout: time.Minute, User: "ada", Tags: []string{"eu"},
		Metadata: map[string]string{"to": l.To}, Deadline: time.Now().Add(time.Hour),
	}
}

// Arguments make the job that client.Submit would; options go on top.
func TestArgumentsMakeTheirJob(t *testing.T) {
	t.Parallel()
	var got *worker.Job[letter]
	look := func(_ context.Context, job *worker.Job[letter]) (any, error) { got = job; return nil, nil }
	outcome := workertest.Run(t.Context(), look, letter{"ada"}, workertest.WithMetadata("more", "1"))
	if !outcome.Completed() || got.Type != "letter" || got.Queue != "mail" || got.Priority != 0 || got.MaxAttempts != 7 || got.User != "ada" ||
		got.Tags[0] != "eu" || got.Metadata["to"]+got.Metadata["more"] != "ada1" || got.Deadline.IsZero() || got.Payload.To != "ada" {
		t.Errorf("%v: the job is %+v", outcome, got)
	}
	w, err := worker.New(worker.Options{Client: workertest.Client()})
	if err != nil {
		t.Fatal(err)
	}
	worker.Handle(w, "other", look)
	if outcome := workertest.RunWorker(t.Context(), w, "other", letter{"bob"}); !outcome.Completed() || got.Type != "other" || got.Queue != "mail" {
		t.Errorf("%v: the job is %+v", outcome, got)
	}
	synctest.Test(t, func(t *testing.T) {
		late := func(ctx context.Context, _ *worker.Job[letter]) (any, error) { <-ctx.Done(); return nil, ctx.Err() }
		start := time.Now()
		if outcome := workertest.Run(t.Context(), late, letter{}); !errors.Is(outcome.Err, worker.ErrTimeout) || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", outcome, time.Since(start))
		}
	})
}

func TestTimeIsTheBubbles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		option workertest.Option
		cause  error
		kind   string
		typed  string
	}{
		"timeout": {workertest.WithTimeout(time.Hour), worker.ErrTimeout, api.KindFail, "timeout"},
		"cancel":  {workertest.CancelAfter(time.Hour), worker.ErrCancelRequested, api.KindFail, "cancelled"},
		"stop":    {workertest.StopAfter(time.Hour), worker.ErrStopping, api.KindRelease, ""},
		"lost":    {workertest.LoseLeaseAfter(time.Hour), worker.ErrLeaseLost, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				got := workertest.Run(t.Context(), func(ctx context.Context, _ *worker.RawJob) (any, error) {
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), test.cause) {
						t.Errorf("the cause is %v", context.Cause(ctx))
					}
					return nil, io.ErrUnexpectedEOF
				}, nil, test.option)
				if took := time.Since(start); took != time.Hour {
					t.Errorf("took %v", took)
				}
				if got.Kind != test.kind || !errors.Is(got.Err, test.cause) || !errors.Is(got.Err, io.ErrUnexpectedEOF) {
					t.Errorf("the outcome is %v, its error %v", got, got.Err)
				}
				if got.Error != nil && got.Error.Type != test.typed {
					t.Errorf("the error's type is %q", got.Error.Type)
				}
			})
		})
	}
}

func TestAPanicHasItsStack(t *testing.T) {
	t.Parallel()
	got := workertest.Run(t.Context(), welcome, account{Email: "nobody@example.com"})
	if !got.Panicked() || !got.Failed() || got.Permanent || !strings.Contains(got.Error.Stack, "welcome") {
		t.Errorf("the outcome is %v, its stack %s", got, got.Error.Stack)
	}
}

func TestAnOldProducersPayload(t *testing.T) {
	t.Parallel()
	got := workertest.Run(t.Context(), welcome, account{}, workertest.WithPayload(`{"email":7}`))
	if !got.Failed() || !got.Permanent || got.Error.Type != "payload" {
		t.Errorf("the outcome is %v", got)
	}
}

func TestMiddlewareWrapsTheHandler(t *testing.T) {
	t.Parallel()
	var order []string
	note := func(name string) func(worker.HandlerFunc) worker.HandlerFunc {
		return func(next worker.HandlerFunc) worker.HandlerFunc {
			return func(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
				order = append(order, name)
				return next(ctx, job)
			}
		}
	}
	swallow := func(worker.HandlerFunc) worker.HandlerFunc {
		return func(context.Context, *worker.RawJob) (json.RawMessage, error) { return nil, nil }
	}
	got := workertest.Run(t.Context(), welcome, account{}, workertest.WithMiddleware(note("outer"), note("inner"), swallow))
	if !got.Completed() || got.Err != nil || strings.Join(order, " ") != "outer inner" {
		t.Errorf("the outcome is %v by %q", got, order)
	}
}

// TestWhatTheTestGotWrong: no panic, and a line that says it.
func TestWhatTheTestGotWrong(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	twice, err := worker.New(worker.Options{Client: workertest.Client()})
	if err != nil {
		t.Fatal(err)
	}
	worker.Handle(twice, "a", welcome)
	worker.Handle(twice, "a", welcome)
	same := func(next worker.HandlerFunc) worker.HandlerFunc { return next }
	for want, got := range map[string]interface{ String() string }{
		"the input cannot be written as JSON": workertest.Run(ctx, func(context.Context, *worker.Job[any]) (any, error) { return nil, nil }, any(func() {})),
		"a payload may have 262144":           workertest.Run(ctx, welcome, account{Email: strings.Repeat("x", api.MaxPayload)}),
		"is nil":                              workertest.Run[account, any](ctx, nil, account{}),
		"has two handlers":                    workertest.RunWorker(ctx, twice, "a", account{}),
		"WithMiddleware is for Run":           workertest.RunWorker(ctx, twice, "a", account{}, workertest.WithMiddleware(same)),
	} {
		if line := got.String(); !strings.HasPrefix(line, "no outcome: ") || !strings.Contains(line, want) {
			t.Errorf("%q does not say %q", line, want)
		}
	}
}

func TestClientHasNoServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := workertest.Client().Claim(ctx, api.ClaimRequest{}); err == nil || !strings.Contains(err.Error(), "there is no server") {
		t.Errorf("the error is %v", err)
	}
}

// A snooze's reason goes to the server; the attempt has not failed for it.
func TestASnoozeForAReason(t *testing.T) {
	t.Parallel()
	got := workertest.Run(t.Context(), func(context.Context, *worker.RawJob) (any, error) {
		return nil, fmt.Errorf("rate limited: %w", worker.Snooze(time.Minute))
	}, nil)
	if !got.Snoozed() || got.Error != nil || got.String() != "snoozed for 1m0s: rate limited" {
		t.Errorf("the outcome is %v, its error %+v", got, got.Error)
	}
	if told := got.Request.Error; told == nil || told.Type != "snoozed" || told.Message != "rate limited" {
		t.Errorf("the server is told %+v", told)
	}
}

// What a wait waits for is in the request, and signals come as the options say.
func TestAWaitAndItsSignal(t *testing.T) {
	t.Parallel()
	handler := func(_ context.Context, job *worker.RawJob) (any, error) {
		var by string
		if there, err := job.Signal("approved", &by); there || err != nil {
			return by + " " + job.WokenBy, err
		}
		return nil, worker.Wait(time.Minute, "approved", "rejected")
	}
	got := workertest.Run(t.Context(), handler, nil)
	if !got.Waits() || got.Delay != time.Minute || !slices.Equal(got.Request.For, []string{"approved", "rejected"}) || got.Error != nil || got.String() != "waits for approved or rejected, at most 1m0s" {
		t.Errorf("the outcome is %v, sent %+v", got, got.Request)
	}
	if got := workertest.Run(t.Context(), handler, nil, workertest.WithSignal("approved", "ada")); !got.Completed() || got.Result != "ada signal" {
		t.Errorf("the outcome is %v", got)
	}
	if got := workertest.Run(t.Context(), handler, nil, workertest.WithSignal("approved", func() {})); got.Err == nil || got.Kind != "" {
		t.Errorf("data that is no JSON: %v", got)
	}
}

// What a job came after is the test's to say; the results go through JSON.
func TestParentsAreAsTheOptionsSay(t *testing.T) {
	t.Parallel()
	total := func(ctx context.Context, job *worker.Job[any]) (int, error) {
		parents, err := job.Parents(ctx)
		if err != nil {
			return 0, err
		}
		var one sent
		if err := parents.Result("first", &one); err != nil {
			return 0, err
		}
		if late, ok := parents.Of("second"); !ok || late.State != api.StateDeadLetter || string(late.Result) != "null" {
			t.Errorf("%+v", parents)
		}
		return one.No + len(job.After), nil
	}
	options := []workertest.Option{workertest.WithParent("first", sent{No: 40}), workertest.WithEndedParent("second", api.StateDeadLetter)}
	if got := workertest.Run(t.Context(), total, nil, options...); !got.Completed() || got.Result != 42 {
		t.Errorf("the outcome is %v", got)
	}
	w, err := worker.New(worker.Options{Client: workertest.Client()})
	if err != nil {
		t.Fatal(err)
	}
	worker.Handle(w, "total", total)
	if got := workertest.RunWorker(t.Context(), w, "total", nil, options...); !got.Completed() || string(got.Result) != "42" {
		t.Errorf("the outcome is %v", got)
	}
	if got := workertest.Run(t.Context(), total, nil); !got.Failed() {
		t.Errorf("without parents: %v", got)
	}
	if got := workertest.Run(t.Context(), total, nil, workertest.WithParent("first", func() {})); !strings.Contains(got.String(), "cannot be written as JSON") {
		t.Errorf("a result that is no JSON: %v", got)
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	outcome := workertest.Run(t.Context(), func(_ context.Context, job *worker.Job[int]) (int, error) {
		var at int
		if found, err := job.Restore(&at); !found || err != nil {
			return 0, fmt.Errorf("found %v: %w", found, err)
		}
		job.Progress(10, "first")
		job.Progress(20, "")
		return at, errors.Join(job.Checkpoint(at+1), job.Checkpoint(at+2))
	}, 1, workertest.WithCheckpoint(7))
	if outcome.Result != 7 || string(outcome.Checkpoint) != "9" || *outcome.Progress.Percent != 20 || outcome.Progress.Message != nil {
		t.Errorf("%v %+v %s", outcome, outcome.Progress, outcome.Checkpoint)
	}
	none := workertest.Run(t.Context(), func(context.Context, *worker.Job[int]) (int, error) { return 1, nil }, 1)
	if none.Progress != nil || none.Checkpoint != nil {
		t.Errorf("%+v %s", none.Progress, none.Checkpoint)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	got := workertest.Run(t.Context(), func(_ context.Context, job *worker.Job[string]) (string, error) {
		job.Logf("hello, %s", job.Payload)
		_, err := io.WriteString(job.ErrOutput(), "no mail today\n")
		return "", err
	}, "ada")
	if got.Said() != "hello, ada\nno mail today\n" || got.Said(api.OutputErr, api.OutputOut) != "no mail today\n" || len(got.Output) != 2 {
		t.Errorf("%q, %+v", got.Said(), got.Output)
	}
}
