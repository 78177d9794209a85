package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Submit stores one job. Check the answer's Warnings; Deduplicated says that it is
// another live job with the same DedupeKey, and Replaced that this one has the new
// content, by Dedupe. Problems to expect: invalid_request, dedupe_conflict,
// rate_limited, active_cap_reached, queue_full, payload_too_large,
// idempotency_mismatch.
func (c *Client) Submit(ctx context.Context, job api.SubmitRequest, options ...CallOption) (api.SubmitResponse, error) {
	var answer api.SubmitResponse
	_, err := c.submit(ctx, call{path: []string{"v1", "jobs"}, body: &job, answer: &answer}, options)
	c.logWarnings(ctx, &answer)
	return answer, err
}

// SubmitAndWait is Submit, and Wait for the job's end; a job that ends soon takes
// one request. The error is that of the submit, or of the wait: then the job is as
// last seen. Its ID is empty where ctx ended, or the network failed, before the
// server had answered: the job may be stored, and the same WithIdempotencyKey finds
// it. The Warnings, Deduplicated and Replaced of Submit are left out. The key needs the
// scopes submit and read.
func (c *Client) SubmitAndWait(ctx context.Context, job api.SubmitRequest, options ...CallOption) (api.Job, error) {
	var answer api.Job
	wait := serverWait(ctx)
	one := call{path: []string{"v1", "jobs"}, body: &job, answer: &answer, timeout: wait + tryTimeout}
	if wait > 0 {
		one.prefer = preferWait(wait)
	}
	got, err := c.submit(ctx, one, options)
	if err != nil {
		return answer, err
	}
	// The whole job, and not the summary of an existing one.
	if got.status == http.StatusOK && got.header.Get("Preference-Applied") != "" && ended(answer.State) {
		return answer, nil
	}
	last, err := c.Wait(ctx, answer.ID)
	if last.ID == "" {
		last = answer
	}
	return last, err
}

// SubmitBatch stores up to 1000 jobs. Without Atomic a nil error does not mean
// that all were accepted: look at Rejected, and at each result's Problem.
func (c *Client) SubmitBatch(ctx context.Context, batch api.BatchRequest, options ...CallOption) (api.BatchResponse, error) {
	var answer api.BatchResponse
	if len(c.middleware) > 0 {
		batch.Jobs = slices.Clone(batch.Jobs) // which middleware may change
	}
	_, err := c.submit(ctx, call{path: []string{"v1", "jobs", "batch"}, body: &batch, answer: &answer}, options)
	return answer, err
}

// Rerun submits a new job like one that has ended; differs says in what it differs,
// and the zero value in nothing. The options are those of Submit, and so are the
// problems, with not_found and job_live.
func (c *Client) Rerun(ctx context.Context, jobID string, differs api.RerunRequest, options ...CallOption) (api.SubmitResponse, error) {
	var answer api.SubmitResponse
	_, err := c.submit(ctx, call{path: []string{"v1", "jobs", jobID, "rerun"}, body: &differs, answer: &answer}, options)
	c.logWarnings(ctx, &answer)
	return answer, err
}

// PatchJob changes a job that waits, and gives it as it is now; what the patch leaves
// out stays. Problems to expect: job_started (it runs, or has ended; also if the job
// started after a change whose answer was lost), invalid_request, not_found,
// queue_full, schema_mismatch.
func (c *Client) PatchJob(ctx context.Context, jobID string, patch api.JobPatch) (api.Job, error) {
	return c.patchJob(ctx, jobID, "", patch)
}

// PatchJobIf is PatchJob of one version of a job, by its ETag:
//
//	job, etag, err := c.GetWithETag(ctx, id)
//	job, err = c.PatchJobIf(ctx, id, etag, api.JobPatch{Priority: new(job.Priority + 1)})
//
// The problem precondition_failed says that the job is another version by now. It may
// also mean that an answer was lost, and the call repeated.
func (c *Client) PatchJobIf(ctx context.Context, jobID, etag string, patch api.JobPatch) (api.Job, error) {
	if !api.ValidLabel(etag) { // without the header it would change any version
		return api.Job{}, fmt.Errorf("client: %q is no ETag", etag)
	}
	return c.patchJob(ctx, jobID, etag, patch)
}

func (c *Client) patchJob(ctx context.Context, jobID, etag string, patch api.JobPatch) (api.Job, error) {
	var answer api.Job
	err := c.do(ctx, call{
		method: http.MethodPatch, path: []string{"v1", "jobs", jobID}, body: patch, ifMatch: etag, answer: &answer, repeatable: true,
	})
	return answer, err
}

// DeleteJob forgets an ended job and its attempts; job_live says that it has not ended.
// The problem not_found may also mean that an answer was lost, and the call repeated.
func (c *Client) DeleteJob(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"v1", "jobs", id}, repeatable: true})
}

// submit sends one, with the options in its headers.
func (c *Client) submit(ctx context.Context, one call, options []CallOption) (received, error) {
	var got received
	chosen, err := choose(options)
	if chosen.replayed != nil {
		defer func() { *chosen.replayed = got.header.Get("Idempotent-Replayed") == "true" }()
	}
	if err != nil {
		return got, err
	}
	one.method, one.repeatable, one.got = http.MethodPost, true, &got
	one.key, one.oneTry = chosen.idempotencyKey, chosen.oneTry
	send := func(ctx context.Context, s *Submission) error {
		one.correlationID, one.traceparent = sendable(s.CorrelationID), sendable(s.Traceparent)
		err := c.do(ctx, one)
		if err == nil {
			s.IDs = idsOf(one.answer)
		}
		return err
	}
	s := &Submission{CorrelationID: chosen.correlationID, Traceparent: chosen.traceparent}
	if len(c.middleware) > 0 {
		s.Jobs = jobsOf(one.body)
	}
	for _, middleware := range slices.Backward(c.middleware) {
		send = middleware(send)
	}
	err = send(ctx, s)
	c.logSubmit(ctx, &one, s, err)
	return got, err
}

func (c *Client) logWarnings(ctx context.Context, answer *api.SubmitResponse) {
	for _, warning := range answer.Warnings {
		c.logger.WarnContext(ctx, "submit has a warning", "job_id", answer.ID, "type", answer.Type, "queue", answer.Queue, "warning", warning)
	}
}

// logSubmit writes a DEBUG line for each job that was accepted.
func (c *Client) logSubmit(ctx context.Context, one *call, s *Submission, err error) {
	if err != nil || !c.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	if job, ok := one.answer.(*api.SubmitResponse); ok { // a rerun's request does not name all of it
		c.logger.DebugContext(ctx, "submitted", "job_id", job.ID, "type", job.Type, "queue", job.Queue)
		return
	}
	for i, job := range jobsOf(one.body) {
		id := ""
		if i < len(s.IDs) {
			id = s.IDs[i]
		}
		if id != "" || s.IDs == nil { // a workflow's jobs have no ids in the answer
			c.logger.DebugContext(ctx, "submitted", "job_id", id, "type", job.Type, "queue", cmp.Or(job.Queue, api.DefaultQueue))
		}
	}
}

// Get reads one job; not_found also stands for the jobs of others.
func (c *Client) Get(ctx context.Context, id string) (api.Job, error) {
	job, _, err := c.GetWithETag(ctx, id)
	return job, err
}

// GetWithETag is Get, with the ETag of the version that was read: for PatchJobIf.
func (c *Client) GetWithETag(ctx context.Context, id string) (job api.Job, etag string, err error) {
	var got received
	err = c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "jobs", id}, answer: &job, got: &got, repeatable: true})
	return job, got.header.Get("ETag"), err
}

// Explain gives all reasons why a job does not start now, or that it runs or has ended.
func (c *Client) Explain(ctx context.Context, id string) (api.Explanation, error) {
	return c.explain(ctx, id, nil)
}

// ExplainDetails is Explain with the job and its first attempts, read at the same moment.
func (c *Client) ExplainDetails(ctx context.Context, id string) (api.Explanation, error) {
	return c.explain(ctx, id, url.Values{"details": {"true"}})
}

func (c *Client) explain(ctx context.Context, id string, query url.Values) (api.Explanation, error) {
	var answer api.Explanation
	err := c.do(ctx, call{
		method: http.MethodGet, path: []string{"v1", "jobs", id, "explain"}, query: query, answer: &answer, repeatable: true,
		maxAnswer: maxAnswer + api.MaxPageSize*maxListed,
	})
	return answer, err
}
