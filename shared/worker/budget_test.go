package worker_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/worker"
)

// A Retry-After of seconds or a date is followed, within bounds; without one that can be read it is 10 s.
func TestRetryAfterOf(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": 10 * time.Second, "20": 20 * time.Second, "0": time.Second, "-3": 10 * time.Second, "soon": 10 * time.Second, "1.5": 10 * time.Second,
		"4000000000": 366 * 24 * time.Hour, time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat): time.Second,
	} {
		if got := worker.RetryAfterOf(&http.Response{Header: http.Header{"Retry-After": {header}}}); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
	in := worker.RetryAfterOf(&http.Response{Header: http.Header{"Retry-After": {time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)}}})
	if in < 50*time.Second || in > time.Minute {
		t.Errorf("in a minute: %v", in)
	}
}

// Throttled is a snooze, and keeps its reason.
func TestThrottledIsASnooze(t *testing.T) {
	t.Parallel()
	reason := errors.New("429 from the provider")
	err := worker.Throttled(reason, "openai", time.Minute)
	if !worker.Snoozed(err) || !errors.Is(err, reason) || !worker.Snoozed(worker.Throttled(nil, "openai", time.Minute)) {
		t.Errorf("%v", err)
	}
}
