package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/wait"
	sdk "github.com/forgequeue/forgequeue/shared/worker"
)

// args are a request of the wire as typed arguments, which SubmitMany takes.
type args struct{ request api.SubmitRequest }

func (a args) JobType() string { return a.request.Type }

func (a args) MarshalJSON() ([]byte, error) {
	if a.request.Payload == nil {
		return []byte("null"), nil
	}
	return a.request.Payload, nil
}

func (a args) JobOptions() client.JobOptions {
	options := client.JobOptions{Queue: a.request.Queue}
	if a.request.MaxAttempts != nil {
		options.MaxAttempts = *a.request.MaxAttempts
	}
	return options
}

func submitsMany(ctx context.Context, c *client.Client, cmd command) (any, error) {
	var many manyAnswer
	requests := make([]args, len(cmd.Requests))
	for i, request := range cmd.Requests {
		requests[i] = args{request}
	}
	answer, err := client.SubmitMany(ctx, c, requests, client.WithIdempotencyKey(cmd.IdempotencyKey), client.WithReplayed(&many.Replayed))
	many.Accepted, many.Rejected = answer.Accepted, answer.Rejected
	for _, result := range answer.Results {
		one := manyResult{Index: result.Index, Status: result.Status}
		if result.Job != nil {
			one.ID = result.Job.ID
		}
		if result.Problem != nil {
			one.Code = string(result.Problem.Code)
		}
		many.Results = append(many.Results, one)
	}
	return many, err
}

// listed is the answer to list and all.
type listed struct {
	IDs  []string `json:"ids"`
	Next string   `json:"next"`
}

func lists(ctx context.Context, c *client.Client, cmd command) (any, error) {
	page, err := c.List(ctx, api.JobFilter{Queue: cmd.Queue}, client.PageRequest{Size: cmd.Size, Token: cmd.Token})
	answer := listed{}
	for _, job := range page.Items {
		answer.IDs = append(answer.IDs, job.ID)
	}
	if page.NextPageToken != nil {
		answer.Next = *page.NextPageToken
	}
	return answer, err
}

func all(ctx context.Context, c *client.Client, cmd command) (any, error) {
	answer := listed{}
	for job, err := range client.All(ctx, func(ctx context.Context, page client.PageRequest) (api.Page[api.JobSummary], error) {
		return c.List(ctx, api.JobFilter{Queue: cmd.Queue}, page)
	}) {
		if err != nil {
			return nil, err
		}
		answer.IDs = append(answer.IDs, job.ID)
	}
	return answer, nil
}

func patched(ctx context.Context, c *client.Client, cmd command) (any, error) {
	if cmd.Do == "etag" {
		_, etag, err := c.GetWithETag(ctx, cmd.Job)
		return etag, err
	}
	var patch api.JobPatch
	if err := json.Unmarshal(cmd.Request, &patch); err != nil {
		return nil, err
	}
	if cmd.IfMatch != "" {
		return c.PatchJobIf(ctx, cmd.Job, cmd.IfMatch, patch)
	}
	return c.PatchJob(ctx, cmd.Job, patch)
}

// bulked is the answer to bulk.
type bulked struct {
	Counted int64    `json:"counted"`
	Bulk    api.Bulk `json:"bulk"`
}

func bulks(ctx context.Context, c *client.Client, cmd command) (any, error) {
	var request api.BulkRequest
	if err := json.Unmarshal(cmd.Request, &request); err != nil {
		return nil, err
	}
	matched, err := c.CountBulk(ctx, request)
	if err != nil {
		return nil, err
	}
	made, err := c.Bulk(ctx, request)
	for err == nil && made.State == api.RedriveRunning {
		if err = wait.For(ctx, 50*time.Millisecond); err == nil {
			made, err = c.GetBulk(ctx, made.ID)
		}
	}
	if err == nil {
		made, err = c.CancelBulk(ctx, made.ID)
	}
	return bulked{matched.Matched, made}, err
}

func signalled(ctx context.Context, c *client.Client, cmd command) (any, error) {
	if cmd.Do == "signal" {
		return c.Signal(ctx, cmd.Job, api.SignalRequest{Name: cmd.Name, Data: cmd.Request})
	}
	link := api.SignalLinkRequest{Name: cmd.Name, Title: cmd.Title}
	if cmd.DelayMS > 0 {
		link.ExpiresMS = &cmd.DelayMS
	}
	return c.CreateSignalLink(ctx, cmd.Job, link)
}

func outputOf(ctx context.Context, c *client.Client, cmd command) (any, error) {
	all := []api.Output{}
	for piece, err := range c.AllOutput(ctx, cmd.Job, "") {
		if err != nil {
			return nil, err
		}
		all = append(all, piece)
	}
	return all, nil
}

func budgets(ctx context.Context, c *client.Client, cmd command) (any, error) {
	switch cmd.Do {
	case "put_budget":
		var settings api.BudgetRequest
		if err := json.Unmarshal(cmd.Request, &settings); err != nil {
			return nil, err
		}
		return c.PutBudget(ctx, cmd.Budget, settings)
	case "budget":
		return c.Budget(ctx, cmd.Budget, cmd.Subject)
	case "budgets":
		page, err := c.Budgets(ctx, client.PageRequest{Size: cmd.Size, Token: cmd.Token})
		answer := listed{}
		for _, budget := range page.Items {
			answer.IDs = append(answer.IDs, budget.Name)
		}
		return answer, err
	case "budget_usage":
		return c.BudgetUsage(ctx, cmd.Budget, cmd.From, cmd.To)
	case "delete_budget":
		return nil, c.DeleteBudget(ctx, cmd.Budget)
	default:
		return nil, fmt.Errorf("no command is called %s", cmd.Do)
	}
}

// verified is the reference library's word: the Go client has no function of its own.
func verified(c command) bool {
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value)
	}
	for _, secret := range c.Secrets {
		webhook, err := standardwebhooks.NewWebhook(secret)
		if err == nil && webhook.Verify([]byte(c.Body), header) == nil {
			return true
		}
	}
	return false
}

func failureOf(err error) *failure {
	f := &failure{Kind: "other", Status: client.Status(err), Message: err.Error()}
	if after := client.RetryAfter(err); after > 0 {
		f.RetryAfterMS = new(after.Milliseconds())
	}
	if ended, ok := errors.AsType[*client.EndedError](err); ok {
		f.Kind, f.State, f.Reason = "ended", ended.State, ended.Reason
		return f
	}
	_, odd := errors.AsType[*client.StatusError](err)
	p, refused := problem.From(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		f.Kind = "deadline"
	case refused:
		f.Kind, f.Code, f.Detail = "problem", string(p.Code), p.Detail
	case odd:
		f.Kind = "status"
	default:
		f.Kind = "no_answer"
	}
	return f
}

func (d *goDriver) work(ctx context.Context, c command) error {
	w, err := sdk.New(sdk.Options{
		Client: d.client(c), Queues: []string{c.Queue}, Concurrency: c.Concurrency, WorkerID: c.WorkerID, Grace: time.Duration(c.GraceMS) * time.Millisecond,
	})
	if err != nil {
		return err
	}
	sdk.Handle(w, "script", func(ctx context.Context, job *sdk.Job[script]) (any, error) { return d.handle(ctx, c.ID, job) })
	if c.Signals {
		return w.RunUntilSignal(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.mu.Lock()
	d.stops[c.ID] = cancel
	d.mu.Unlock()
	return w.Run(ctx)
}

func (d *goDriver) handle(ctx context.Context, worker int, job *sdk.Job[script]) (any, error) {
	var checkpoint json.RawMessage
	if _, err := job.Restore(&checkpoint); err != nil {
		return nil, err
	}
	running := d.entered(worker, 1)
	defer d.entered(worker, -1)
	d.say(line{Event: "started", Worker: worker, Job: job.ID, Attempt: job.Attempt, Epoch: job.Epoch, Checkpoint: checkpoint, Running: running})
	deliveries := job.Payload.Deliveries
	for _, step := range deliveries[min(int(job.Epoch), len(deliveries))-1] {
		switch step.Do {
		case "return":
			return step.Value, nil
		case "big":
			return strconv.FormatInt(job.Payload.N, 10), nil
		case "undefined":
			return nil, nil
		case "unencodable":
			return func() {}, nil
		case "large":
			return strings.Repeat("x", api.MaxResult), nil
		case "fail":
			return nil, failing(step)
		case "snooze":
			return nil, fmt.Errorf("%s: %w", step.Message, sdk.Snooze(time.Duration(step.DelayMS)*time.Millisecond))
		case "throttled":
			return nil, sdk.Throttled(errors.New(step.Message), step.Budget, time.Duration(step.DelayMS)*time.Millisecond)
		case "used":
			job.Used(step.Budget, int64(step.Amount))
		case "then":
			job.Then(step.Jobs...)
		case "then_signal":
			if err := job.ThenSignal(step.Job, step.Name, step.Value); err != nil {
				return nil, err
			}
		case "wait":
			return nil, waiting(step)
		case "received":
			return receives(job, step.Name)
		case "progress":
			job.Progress(*step.Percent, step.Message)
		case "checkpoint":
			if err := job.Checkpoint(step.Value); err != nil {
				return nil, err
			}
		case "write", "log", "lines":
			writes(job, step)
		case "go":
			<-d.gate(job.ID)
		case "pause":
			<-time.After(time.Duration(step.DelayMS) * time.Millisecond)
		case "ended":
			<-ctx.Done()
			d.say(line{Event: "told", Worker: worker, Job: job.ID, Epoch: job.Epoch, Cause: causeOf(ctx)})
		case "listen":
			context.AfterFunc(ctx, func() {
				d.say(line{Event: "heard", Worker: worker, Job: job.ID, Epoch: job.Epoch, Cause: causeOf(ctx)})
			})
		case "rethrow":
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		default:
			return nil, fmt.Errorf("no step is called %s", step.Do)
		}
	}
	return nil, nil
}

func failing(s step) error {
	err := errors.New(s.Message)
	switch {
	case s.Permanent:
		return sdk.Permanent(err)
	case s.RetryAfterMS != nil:
		return sdk.RetryAfter(err, time.Duration(*s.RetryAfterMS)*time.Millisecond)
	default:
		return err
	}
}

func writes(job *sdk.Job[script], s step) {
	streams := map[string]io.Writer{api.OutputOut: job.Output(), api.OutputErr: job.ErrOutput()}
	switch s.Do {
	case "lines":
		for n := range int(s.Amount) {
			_, _ = fmt.Fprintf([]io.Writer{job.Output(), job.ErrOutput()}[n%2], "line %d\n", n+1) // it never fails
		}
	case "log":
		job.Logf("%s", s.Message)
	default:
		_, _ = io.WriteString(streams[s.Name], s.Message)
	}
}

func waiting(s step) error {
	wait := sdk.Wait
	if s.All {
		wait = sdk.WaitAll
	}
	return wait(time.Duration(s.DelayMS)*time.Millisecond, s.Names...)
}

func receives(job *sdk.Job[script], name string) (any, error) {
	answer := struct {
		Data    any     `json:"data"`
		WokenBy *string `json:"woken_by"`
	}{Data: "none"}
	if job.WokenBy != "" {
		answer.WokenBy = &job.WokenBy
	}
	_, err := job.Signal(name, &answer.Data)
	return answer, err
}

func causeOf(ctx context.Context) string {
	for word, cause := range map[string]error{
		"lease_lost": sdk.ErrLeaseLost, "cancel": sdk.ErrCancelRequested, "timeout": sdk.ErrTimeout, "stopping": sdk.ErrStopping,
	} {
		if errors.Is(context.Cause(ctx), cause) {
			return word
		}
	}
	return context.Cause(ctx).Error()
}
