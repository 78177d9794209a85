package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Claim claims jobs. They are leased to the caller, after at most wait_ms; an empty list is a good answer.
// When the caller leaves first, or its key is revoked, its jobs are returned at once:
// by core if the call to it ends in time, here if core had answered already.
//
// The answer is passed on undecoded: it may be 1000 payloads, and the gateway uses
// nothing in it.
//
//	@ID          claimJobs
//	@Description Leases up to `max` jobs of the given queues to the caller, and waits up to `wait_ms` for the first one. If there is none, the answer is 200 with an empty list. With `types`, only jobs of these types are leased. A job is leased only to a worker that has all of its tags.
//	@Description
//	@Description Each job has a `lease_token`, which every later call about it must send, and `lease_ms`: complete it or send a heartbeat within this time. If the caller closes the connection before the answer, the jobs are released.
//	@Param       claim body api.ClaimRequest true "The worker, and the queues to claim from."
//	@Success     200 {object} api.ClaimResponse "The jobs that are now leased to you; may be empty."
//	@x-example-one     {"worker_id": "worker-1", "queues": ["default"]}
//	@x-example-waiting {"worker_id": "worker-1", "queues": ["default", "mail"], "tags": ["smtp"], "max": 10, "wait_ms": 1000}
func (h *Handlers) Claim(ctx context.Context, c *call.Call, r api.ClaimRequest) (call.Response[json.RawMessage], error) {
	if fields := r.Validate(); len(fields) > 0 {
		return call.Response[json.RawMessage]{}, problem.Invalid(fields...)
	}
	c.Body.Release() // the rest of the body is small, and the claim may wait long
	waits := r.WaitMS != nil && *r.WaitMS > 0
	if waits {
		c.Wait = time.Duration(*r.WaitMS) * time.Millisecond
		var release func()
		ctx, release = h.auth.WhileGood(ctx, c.Caller)
		defer release()
	}
	answer, err := call.SendAs(ctx, h.core, c, hop.Raw(hop.ClaimJobs), cellclient.How{Parked: waits}, r)
	if waits && errors.Is(err, cellclient.ErrNoPlace) {
		answer, err = h.claimShortly(ctx, c, r)
	}
	if errors.Is(err, cellclient.ErrCutShort) { // there was nothing yet, and the wait has ended
		return call.Response[json.RawMessage]{Value: json.RawMessage(`{"jobs":[]}`)}, nil
	}
	if err == nil && ctx.Err() != nil {
		h.giveBack(ctx, c, answer.Value)
		// The caller does not read this; but the log must not show an internal error.
		err = fmt.Errorf("%w: the caller has left: %w", cellclient.ErrUnavailable, ctx.Err())
	}
	if errors.Is(context.Cause(ctx), auth.ErrUnauthenticated) {
		return call.Response[json.RawMessage]{}, context.Cause(ctx)
	}
	if err != nil {
		return call.Response[json.RawMessage]{}, err
	}
	return answer, nil
}

// claimShortly is a claim for which there is no place to wait: it takes the jobs that are
// ready; if there are none, it delays the answer a little, so that its caller does not
// poll in a busy loop.
func (h *Handlers) claimShortly(ctx context.Context, c *call.Call, r api.ClaimRequest) (call.Response[json.RawMessage], error) {
	wait := c.Wait
	c.Wait, r.WaitMS = 0, nil
	answer, err := call.Send(ctx, h.core, c, hop.Raw(hop.ClaimJobs), r)
	var claimed struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	if err == nil && json.Unmarshal(answer.Value, &claimed) == nil && len(claimed.Jobs) == 0 {
		cellclient.ShortWait(ctx, wait)
	}
	return answer, err
}

// giveBack releases jobs claimed for a caller that has left; their attempts are not
// spent. If that fails the leases expire.
func (h *Handlers) giveBack(ctx context.Context, c *call.Call, claimed json.RawMessage) {
	var jobs struct {
		Jobs []struct {
			ID         string `json:"id"`
			LeaseToken string `json:"lease_token"`
		} `json:"jobs"`
	}
	if json.Unmarshal(claimed, &jobs) != nil || len(jobs.Jobs) == 0 {
		return
	}
	var release api.OutcomesRequest
	for _, job := range jobs.Jobs {
		release.Outcomes = append(release.Outcomes, api.OutcomeRequest{JobID: job.ID, Kind: api.KindRelease, LeaseToken: job.LeaseToken})
	}
	// The caller's context has ended; this call has the usual timeout of its own.
	_, _ = call.Send(context.WithoutCancel(ctx), h.core, c, hop.ReportOutcomes, release)
}
