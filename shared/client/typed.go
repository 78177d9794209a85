package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Submit stores one job with these arguments. It is Client.Submit, with the same
// problems, for a request that the arguments make:
//
//	job, err := client.Submit(ctx, c, Email{To: "ada@example.com"}, client.JobOptions{Delay: time.Hour})
//
// The answer's Deduplicated says that it is another live job with the same
// DedupeKey, Replaced that this one has the new content now, by OnLive; Warnings
// what to know of the job.
func Submit(ctx context.Context, c *Client, args JobArgs, options ...SubmitOption) (api.SubmitResponse, error) {
	s := collect(options)
	request, err := Request(args, s.job)
	if err != nil {
		return api.SubmitResponse{}, err
	}
	return c.Submit(ctx, request, s.call...)
}

// SubmitAndWait is Submit and Wait, for a job that ends soon in one request:
//
//	receipt, err := client.SubmitAndWait[Receipt](ctx, c, Email{To: "ada@example.com"})
func SubmitAndWait[Result any](ctx context.Context, c *Client, args JobArgs, options ...SubmitOption) (Result, error) {
	s := collect(options)
	request, err := Request(args, s.job)
	if err != nil {
		return *new(Result), err
	}
	job, err := c.SubmitAndWait(ctx, request, s.call...)
	if err != nil {
		return *new(Result), err
	}
	return ResultOf[Result](job)
}

// Wait gives the result of a job once it has completed. A job that is cancelled, or
// is a dead letter, is an *EndedError:
//
//	receipt, err := client.Wait[Receipt](ctx, c, job.ID)
//	if ended, ok := errors.AsType[*client.EndedError](err); ok {
//		log.Print(ended.State, ended.Reason, ended.Job.LastError)
//	}
//
// Give ctx a deadline. Other errors are those of Client.Wait, and of a result that is
// no Result.
func Wait[Result any](ctx context.Context, c *Client, id string) (Result, error) {
	job, err := c.Wait(ctx, id)
	if err != nil {
		return *new(Result), err
	}
	return ResultOf[Result](job)
}

// ResultOf decodes the result of a job that has completed; the zero value for null.
// For any other job it is an *EndedError.
func ResultOf[Result any](job api.Job) (Result, error) {
	var result Result
	if job.State != api.StateCompleted {
		ended := &EndedError{State: job.State, Job: job}
		if job.DeadReason != nil {
			ended.Reason = *job.DeadReason
		}
		return result, ended
	}
	if len(job.Result) == 0 {
		return result, nil
	}
	if err := json.Unmarshal(job.Result, &result); err != nil {
		return *new(Result), fmt.Errorf("client: the result of job %s does not fit a %T: %w", job.ID, result, err)
	}
	return result, nil
}

// EndedError is a job that has no result: it ended otherwise.
type EndedError struct {
	// State is api.StateDeadLetter or api.StateCancelled. From ResultOf it may be
	// another one: the job has not ended.
	State string
	// Reason is a dead letter's: api.ReasonExhausted, ReasonPermanent,
	// ReasonWorkerLost or ReasonDeadline; empty otherwise.
	Reason string
	// Job is all of it; its LastError is nil if no attempt failed.
	Job api.Job
}

// Error has the job's id, type, state, reason and last error in a line.
func (e *EndedError) Error() string {
	text := fmt.Sprintf("job %s of type %s is %s", e.Job.ID, e.Job.Type, e.State)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	if last := e.Job.LastError; last != nil {
		text += fmt.Sprintf(": %s: %s", last.Type, last.Message)
	}
	return text
}
