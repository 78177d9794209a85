package client

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// heldFor is how long the server is asked to delay an answer.
	heldFor = 20 * time.Second
	// beforeDeadline is the part of the caller's time left for the answer to arrive.
	beforeDeadline = 500 * time.Millisecond
	// A server that does not delay its answers is polled at intervals that grow from
	// pollFirst to pollLast.
	pollFirst = 20 * time.Millisecond
	pollLast  = 500 * time.Millisecond
)

// Wait gives the job once it has ended: completed, dead_letter or cancelled. Give
// ctx a deadline; when it passes, the job as last seen comes with ctx's error.
//
// Once the job was seen, an outage of the server does not end the wait, but ctx does: it is asked again, at most every
// five seconds. Before that, and for a refusal such as not_found, it fails as other calls do.
//
// The server is asked to answer when the state changes (Prefer: wait). A server
// that does not confirm that it waited is polled instead.
func (c *Client) Wait(ctx context.Context, id string) (api.Job, error) {
	interval := pollFirst
	var last snapshot
	failed := 0
	delay := time.Duration(0) // the first poll is not delayed: the job may have ended
	for {
		asked := time.Now()
		now, err := c.poll(ctx, id, last, delay)
		if err != nil && last.job.State != "" {
			failed++
			if err := c.outlast(ctx, call{repeatable: true}, failed, err); err != nil {
				return last.job, fmt.Errorf("wait for job %s, last seen %s: %w", id, last.job.State, err)
			}
			continue
		}
		if err != nil {
			return last.job, err
		}
		failed = 0
		if ended(now.job.State) {
			return now.job, nil
		}
		// An early answer without a change counts as no wait, even with the header.
		held := now.held && (now.job.State != last.job.State || time.Since(asked) >= pollLast)
		last = now
		if !held {
			// Half to all of the interval, so that many waiters do not poll at once.
			if err := wait.For(ctx, interval/2+mathrand.N(interval/2)); err != nil { //nolint:gosec // jitter needs no secrecy
				return last.job, fmt.Errorf("wait for job %s, last seen %s: %w", id, last.job.State, err)
			}
			interval = min(interval*3/2, pollLast)
		}
		delay = serverWait(ctx)
	}
}

// serverWait is how long an answer may be delayed, in whole seconds: heldFor, or
// what ctx leaves.
func serverWait(ctx context.Context) time.Duration {
	wait := heldFor
	if deadline, ok := ctx.Deadline(); ok {
		wait = max(min(wait, time.Until(deadline)-beforeDeadline), 0)
	}
	return wait.Truncate(time.Second)
}

// snapshot is a job as it was read, with its ETag, and whether the server applied
// Prefer: wait.
type snapshot struct {
	job  api.Job
	etag string
	held bool
}

// poll reads the job once it has changed since before, or wait is over.
func (c *Client) poll(ctx context.Context, id string, before snapshot, wait time.Duration) (snapshot, error) {
	var now snapshot
	var got received
	err := c.do(ctx, call{
		method: http.MethodGet, path: []string{"v1", "jobs", id}, answer: &now.job, got: &got, repeatable: true,
		prefer: preferWait(wait), ifNoneMatch: before.etag, timeout: wait + tryTimeout,
	})
	now.etag, now.held = got.header.Get("ETag"), got.header.Get("Preference-Applied") != ""
	if got.status == http.StatusNotModified {
		now.job, now.etag = before.job, before.etag
	}
	return now, err
}

// preferWait asks for the answer to be delayed (RFC 7240, section 4.3).
func preferWait(wait time.Duration) string { return "wait=" + strconv.Itoa(int(wait/time.Second)) }

func ended(state string) bool {
	return state == api.StateCompleted || state == api.StateDeadLetter || state == api.StateCancelled
}
