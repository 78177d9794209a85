package handlers

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// whileKeyIsGood gives a context that ends, with auth.ErrUnauthenticated for its cause,
// when the call's key is revoked or expires.
func (h *Handlers) whileKeyIsGood(ctx context.Context, c *Call) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhold := h.auth.Hold(ctx, c.Caller.Key.KeyID, func() { cancel(auth.ErrUnauthenticated) })
	return ctx, func() {
		unhold()
		cancel(nil)
	}
}

// preferredWait reads Prefer: wait=n. left is the remaining time, counted from the
// request's arrival (RFC 7240); never below 0. applied is the value of
// Preference-Applied, empty where there is no preference that can be honoured.
func (c *Call) preferredWait() (left time.Duration, applied string) {
	seconds, ok := request.PreferredWait(c.Prefer)
	if !ok {
		return 0, ""
	}
	left = time.Duration(seconds)*time.Second - time.Since(c.Began)
	return max(left, 0).Truncate(time.Millisecond), "wait=" + strconv.Itoa(seconds)
}

// hold asks core to answer when a job has changed, or when wait is over: then
// with the job as it is. It fails with coreclient.ErrCutShort if the wait was ended
// early, and with auth.ErrUnauthenticated if the key is no longer valid.
// If there is no place to wait it waits a little here, and reads the job.
func (h *Handlers) hold(ctx context.Context, c *Call, wait time.Duration, request hop.WaitForJobRequest) (api.Job, error) {
	c.wait, request.WaitMS = wait, wait.Milliseconds()
	ctx, release := h.whileKeyIsGood(ctx, c)
	defer release()
	answer, err := sendAs(ctx, h, c, hop.WaitForJob, coreclient.How{Parked: true}, request)
	job := answer.Value
	if errors.Is(err, coreclient.ErrNoPlace) {
		c.wait = 0
		coreclient.ShortWait(ctx, wait)
		job, err = h.read(ctx, c, request.ID)
	}
	if cause := context.Cause(ctx); errors.Is(cause, auth.ErrUnauthenticated) {
		return api.Job{}, cause
	}
	return job, err
}

// Ended says whether a state is an end.
func Ended(state string) bool {
	return state == api.StateCompleted || state == api.StateDeadLetter || state == api.StateCancelled
}
