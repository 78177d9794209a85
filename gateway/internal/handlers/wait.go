package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// waitForChange asks core to answer when a job has changed, or when wait is over: then
// with the job as it is. It fails with cellclient.ErrCutShort if the wait was ended
// early, and with auth.ErrUnauthenticated if the key is no longer valid.
// If there is no place to wait it waits a little here, and reads the job.
func (h *Handlers) waitForChange(ctx context.Context, c *call.Call, wait time.Duration, request hop.WaitForJobRequest) (json.RawMessage, error) {
	c.Wait, request.WaitMS = wait, wait.Milliseconds()
	ctx, release := h.auth.WhileGood(ctx, c.Caller)
	defer release()
	answer, err := call.SendAs(ctx, h.core, c, hop.Raw(hop.WaitForJob), cellclient.How{Parked: true}, request)
	job := answer.Value
	if errors.Is(err, cellclient.ErrNoPlace) {
		c.Wait = 0
		cellclient.ShortWait(ctx, wait)
		job, err = h.readText(ctx, c, request.ID)
	}
	if cause := context.Cause(ctx); errors.Is(cause, auth.ErrUnauthenticated) {
		return nil, cause
	}
	return job, err
}
