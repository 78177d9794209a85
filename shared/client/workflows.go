package client

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// maxWorkflow is how large a workflow with all of its jobs can be in an answer, in
// bytes.
const maxWorkflow = maxAnswer + api.MaxWorkflowJobs*1024 + api.MaxWorkflowEdges*512

// A workflow is read at intervals that grow from workflowPollFirst to
// workflowPollLast, or to workflowPollJob for each of its jobs if that is longer:
// 10 s for 10,000 jobs, whose answer has some megabytes.
const (
	workflowPollFirst = 50 * time.Millisecond
	workflowPollLast  = time.Second
	workflowPollJob   = time.Millisecond
)

// SubmitWorkflow stores all jobs of a workflow, or none. The answer is the workflow
// with the counts of its jobs. Repeated like Submit, under an Idempotency-Key.
// Problems to expect: invalid_request (a cycle, an unknown ref, a ref twice),
// rate_limited, active_cap_reached, queue_full, payload_too_large,
// idempotency_mismatch.
func (c *Client) SubmitWorkflow(ctx context.Context, workflow *WorkflowBuilder, options ...CallOption) (api.Workflow, error) {
	var answer api.Workflow
	request, err := workflow.Request()
	if err != nil {
		return answer, err
	}
	_, err = c.submit(ctx, call{path: []string{"v1", "workflows"}, body: &request, answer: &answer}, options)
	return answer, err
}

// AddToWorkflow adds jobs to a running workflow: all of them, or none. They may
// come after its earlier jobs, by their refs. The builder has no name and no
// metadata: those are of the workflow. Problems: workflow_ended, and those of
// SubmitWorkflow. At most 10,000 jobs in all.
func (c *Client) AddToWorkflow(ctx context.Context, id string, jobs *WorkflowBuilder, options ...CallOption) (api.Workflow, error) {
	var answer api.Workflow
	request, err := jobs.Request()
	if err != nil {
		return answer, err
	}
	if request.Name != "" || len(request.Metadata) > 0 {
		return answer, errors.New("client: workflow: name and metadata are of a new workflow; jobs that are added have none")
	}
	body := api.WorkflowJobsRequest{Jobs: request.Jobs}
	_, err = c.submit(ctx, call{path: []string{"v1", "workflows", id, "jobs"}, body: &body, answer: &answer}, options)
	return answer, err
}

// GetWorkflow reads a workflow with all of its jobs that are still kept.
func (c *Client) GetWorkflow(ctx context.Context, id string) (api.WorkflowDetail, error) {
	var answer api.WorkflowDetail
	err := c.do(ctx, call{
		method: http.MethodGet, path: []string{"v1", "workflows", id}, answer: &answer, repeatable: true, maxAnswer: maxWorkflow,
	})
	return answer, err
}

// Workflows gives one page of the workflows that match all of the filter, newest
// first, without their jobs.
func (c *Client) Workflows(ctx context.Context, filter api.WorkflowFilter, page PageRequest) (api.Page[api.Workflow], error) {
	query := page.query()
	set(query, "state", filter.State)
	set(query, "name", filter.Name)
	return list[api.Workflow](ctx, c, query, "workflows")
}

// CancelWorkflow cancels all of a workflow's jobs that have not ended. Those that run
// are only asked to end, so that it may still be running. A repeat changes nothing.
func (c *Client) CancelWorkflow(ctx context.Context, id string) (api.Workflow, error) {
	var answer api.Workflow
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "workflows", id, "cancel"}, answer: &answer, repeatable: true})
	return answer, err
}

// RedriveWorkflow queues a workflow's dead letters again; the jobs that they held
// go on once they have completed. A nil error does not mean that all were queued:
// each has its own result. It is not repeated once it may have been written: a
// repeat would not tell of those that the first has queued.
func (c *Client) RedriveWorkflow(ctx context.Context, id string) (api.DeadLetterResponse, error) {
	var answer api.DeadLetterResponse
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "workflows", id, "redrive"}, answer: &answer})
	return answer, err
}

// Parents gives one page of the jobs that one came after, those that are still kept,
// with the results of those that have completed, by id. A page ends where its results
// reach 1 MiB, so that it may be short. For keys with the scope read; and with the
// scope work while the job runs under a lease of the key's worker.
func (c *Client) Parents(ctx context.Context, jobID string, page PageRequest) (api.Page[api.JobParent], error) {
	return list[api.JobParent](ctx, c, page.query(), "jobs", jobID, "parents")
}

// WaitForWorkflow gives the workflow once it has ended: completed, failed or
// cancelled. Give ctx a deadline; when it passes, the workflow as last seen comes with
// ctx's error. One with a job that is held (on_failed "hold") does not end until
// its dead letter was redriven or deleted, or it was cancelled.
//
// Once the workflow was seen, an outage of the server does not end the wait, as for [Client.Wait].
//
// It polls, once a second at most, and less often where it has more than 1000 jobs.
func (c *Client) WaitForWorkflow(ctx context.Context, id string) (api.WorkflowDetail, error) {
	var last api.WorkflowDetail
	interval, failed := workflowPollFirst, 0
	for {
		now, err := c.GetWorkflow(ctx, id)
		if err != nil && last.State != "" {
			failed++
			if err := c.outlast(ctx, call{repeatable: true}, failed, err); err != nil {
				return last, fmt.Errorf("wait for workflow %s: %w", id, err)
			}
			continue
		}
		if err != nil {
			return last, err
		}
		last, failed = now, 0
		if last.State != api.WorkflowRunning {
			return last, nil
		}
		// Half to all of the interval, so that many waiters do not poll at once.
		if err := wait.For(ctx, interval/2+mathrand.N(interval/2)); err != nil { //nolint:gosec // jitter needs no secrecy
			return last, fmt.Errorf("wait for workflow %s, %d of %d jobs have ended: %w", id, last.Counts.Ended(), len(last.Jobs), err)
		}
		interval = min(interval*3/2, max(workflowPollLast, time.Duration(len(last.Jobs))*workflowPollJob))
	}
}
