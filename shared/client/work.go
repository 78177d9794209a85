package client

import (
	"context"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// These are a worker's calls; package worker runs them in a loop.

// Register makes the worker known, or updates it; a DEAD one lives again.
func (c *Client) Register(ctx context.Context, worker api.WorkerRequest) (api.Worker, error) {
	var answer api.Worker
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "workers"}, body: worker, answer: &answer, repeatable: true})
	return answer, err
}

// Heartbeat extends up to 1000 leases, answered in the order sent. Give ctx a
// deadline at which the next heartbeat is due, a third of the shortest
// lease: retries of this one may wait for longer than such a lease lasts. Problem:
// worker_unknown (register again).
func (c *Client) Heartbeat(ctx context.Context, workerID string, leases []api.Lease) (api.HeartbeatResponse, error) {
	var answer api.HeartbeatResponse
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"v1", "workers", workerID, "heartbeat"},
		body: api.HeartbeatRequest{Leases: leases}, answer: &answer, repeatable: true,
	})
	return answer, err
}

// RemoveWorker deregisters a worker: it is removed from the list, and its leases are returned
// at once, without using up an attempt. It is no error if the server does not know it. End
// its claims first: jobs of a claim in flight may stay leased.
func (c *Client) RemoveWorker(ctx context.Context, workerID string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"v1", "workers", workerID}, repeatable: true})
}

// Claim leases up to Max jobs, and waits up to WaitMS for the first. It is tried
// again only when the connection could not be made: jobs in a lost answer stay
// leased.
func (c *Client) Claim(ctx context.Context, claim api.ClaimRequest) (api.ClaimResponse, error) {
	wait := time.Duration(0)
	if claim.WaitMS != nil {
		wait = time.Duration(*claim.WaitMS) * time.Millisecond
	}
	var answer api.ClaimResponse
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"v1", "claims"}, body: claim, answer: &answer,
		timeout: wait + tryTimeout,
	})
	return answer, err
}

// Complete ends a job well. Problems of all outcomes: lease_lost,
// outcome_conflict, not_found. A repeat gets the first answer again. Of the options
// WithOneTry and those for tracing count: with the job's own, its end is in its trace.
func (c *Client) Complete(ctx context.Context, jobID string, outcome api.CompleteRequest, options ...CallOption) (api.Outcome, error) {
	return c.outcome(ctx, jobID, api.KindComplete, outcome, options)
}

// Fail ends an attempt badly; the server decides on a retry.
func (c *Client) Fail(ctx context.Context, jobID string, outcome api.FailRequest, options ...CallOption) (api.Outcome, error) {
	return c.outcome(ctx, jobID, api.KindFail, outcome, options)
}

// Snooze puts a job back for a while; the attempt is given back.
func (c *Client) Snooze(ctx context.Context, jobID string, outcome api.SnoozeRequest, options ...CallOption) (api.Outcome, error) {
	return c.outcome(ctx, jobID, api.KindSnooze, outcome, options)
}

// ReportWait has a job wait for signals, or sleep; the attempt is given back. (Wait is another: it waits here for the end of a job.)
func (c *Client) ReportWait(ctx context.Context, jobID string, outcome api.WaitRequest, options ...CallOption) (api.Outcome, error) {
	return c.outcome(ctx, jobID, api.KindWait, outcome, options)
}

// Release puts a job back at once; the attempt is given back.
func (c *Client) Release(ctx context.Context, jobID string, outcome api.ReleaseRequest, options ...CallOption) (api.Outcome, error) {
	return c.outcome(ctx, jobID, api.KindRelease, outcome, options)
}

func (c *Client) outcome(ctx context.Context, jobID, kind string, body any, options []CallOption) (api.Outcome, error) {
	var answer api.Outcome
	var chosen callOptions
	for _, option := range options {
		option(&chosen)
	}
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"v1", "jobs", jobID, kind}, body: body, answer: &answer, repeatable: true,
		correlationID: chosen.correlationID, traceparent: chosen.traceparent, oneTry: chosen.oneTry,
	})
	return answer, err
}

// Outcomes sends up to 1000 outcomes of any kind; each has its own answer or
// problem, in the order sent. Of the options WithOneTry counts.
func (c *Client) Outcomes(ctx context.Context, outcomes []api.OutcomeRequest, options ...CallOption) (api.OutcomesResponse, error) {
	var answer api.OutcomesResponse
	var chosen callOptions
	for _, option := range options {
		option(&chosen)
	}
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"v1", "outcomes"},
		body: api.OutcomesRequest{Outcomes: outcomes}, answer: &answer, repeatable: true, oneTry: chosen.oneTry,
	})
	return answer, err
}
