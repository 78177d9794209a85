package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/worker"
)

var errBoom = errors.New("boom")

// TestTheLineOfAnAttempt: what the keys beside those of checkLine say, and how loudly.
func TestTheLineOfAnAttempt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err   error
		level string
		want  map[string]any // nil for a key that must not be there
	}{
		"completed": {nil, "INFO", map[string]any{
			"outcome": "completed", "error": "", "permanent": nil, "state": nil, "run_at": nil, "delay_ms": nil, "reason": nil,
		}},
		"snoozed": {worker.Snooze(time.Minute), "INFO", map[string]any{
			"outcome": "snoozed", "error": "", "delay_ms": 60_000.0, "reason": nil, "state": "scheduled", "run_at": "2000-01-01T00:01:00Z",
		}},
		"snoozed for a reason": {fmt.Errorf("the mail server is busy: %w", worker.Snooze(time.Second)), "INFO", map[string]any{
			"outcome": "snoozed", "error": "", "delay_ms": 1000.0, "reason": "the mail server is busy: snoozed for 1s",
		}},
		"waiting": {worker.Wait(time.Minute, "approved", "rejected"), "INFO", map[string]any{
			"outcome": "waiting", "error": "", "timeout_ms": 60_000.0, "reason": "waits for approved or rejected, at most 1m0s",
			"state": "waiting", "run_at": "2000-01-01T00:01:00Z", "delay_ms": nil,
		}},
		"sleeping": {fmt.Errorf("until tomorrow: %w", worker.Wait(time.Hour)), "INFO", map[string]any{
			"outcome": "waiting", "error": "", "timeout_ms": 3_600_000.0, "reason": "until tomorrow: sleeps for 1h0m0s",
		}},
		"failed": {errBoom, "WARN", map[string]any{
			"outcome": "failed", "error": "boom", "permanent": nil, "state": "scheduled", "run_at": "2000-01-01T00:00:05Z", "delay_ms": nil,
		}},
		"failed, and retried later": {worker.RetryAfter(errBoom, time.Hour), "WARN", map[string]any{
			"outcome": "failed", "error": "boom", "permanent": nil, "state": "scheduled", "run_at": "2000-01-01T01:00:00Z",
		}},
		"failed for good": {worker.Permanent(errBoom), "WARN", map[string]any{
			"outcome": "failed", "error": "boom", "permanent": true, "state": "dead_letter", "dead_reason": "permanent", "run_at": nil,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				worker.Handle(b.worker, "greet", func(context.Context, *worker.RawJob) (any, error) { return nil, test.err })
				id := b.submit("greet", `{}`)
				b.run(t)
				b.finish(t)
				checkLine(t, b, id, test.want["outcome"].(string))
				line := b.log.attempts(t)[0]
				if line["level"] != test.level {
					t.Errorf("the level is %v", line["level"])
				}
				for key, want := range test.want {
					if line[key] != want {
						t.Errorf("%s is %v, want %v", key, line[key], want)
					}
				}
			})
		})
	}
}

// The answers of outcomes that share a request are told apart.
func TestTheLinesOfABatch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := atOnce(t, 8, func(n int) (any, error) { return nil, worker.RetryAfter(errBoom, time.Duration(n+1)*time.Hour) }, nil, nil)
		pass(10 * time.Second)
		b.finish(t)
		lines := b.log.attempts(t)
		if len(lines) != 8 || slices.Max(b.flushes) < 2 { // how many go at once is not said
			t.Fatalf("%d lines, requests with %v", len(lines), b.flushes)
		}
		for _, line := range lines {
			id, _ := line["job_id"].(string)
			if want := b.find(id).runAt; want == nil || line["run_at"] != want.UTC().Format(time.RFC3339Nano) || line["state"] != api.StateScheduled {
				t.Errorf("%s: %v, want run_at %v", id, line, want)
			}
		}
	})
}

// What the server did not tell is left out.
func TestALineWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		b.spoilWith(func(_ string, w http.ResponseWriter, r *http.Request) bool {
			if r.PathValue("kind") == "" {
				return false
			}
			reply(w, map[string]any{})
			return true
		})
		worker.Handle(b.worker, "greet", func(context.Context, *worker.RawJob) (any, error) { return nil, worker.Permanent(errBoom) })
		id := b.submit("greet", `{}`)
		b.run(t)
		b.finish(t)
		checkLine(t, b, id, "failed")
		line := b.log.attempts(t)[0]
		for _, key := range []string{"state", "run_at", "dead_reason"} {
			if told, ok := line[key]; ok {
				t.Errorf("%s is %v", key, told)
			}
		}
		if line["permanent"] != true {
			t.Errorf("the line is %v", line)
		}
	})
}
