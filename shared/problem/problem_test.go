package problem_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestWriteHasEveryField(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	problem.New(problem.NotFound, "no such job").Write(recorder)

	var document map[string]any
	if err := json.Unmarshal(recorder.Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{
		"type", "title", "status", "detail", "instance", "code", "request_id", "retry_after_ms", "errors", "policies",
	} {
		if _, ok := document[field]; !ok {
			t.Errorf("the document has no %q: %s", field, recorder.Body)
		}
	}
	if recorder.Code != 404 || recorder.Header().Get("Content-Type") != problem.ContentType {
		t.Errorf("status %d, content type %q", recorder.Code, recorder.Header().Get("Content-Type"))
	}
}

func TestRetryAfterRoundsUp(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{
		0: "1", time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2", time.Minute: "60", -time.Second: "1",
	} {
		if got := problem.New(problem.RateLimited, "").WithRetryAfter(wait).RetryAfterSeconds(); got != want {
			t.Errorf("Retry-After for %v is %q, want %q", wait, got, want)
		}
	}
}

func TestFromFindsAWrappedProblem(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("submit: %w", problem.New(problem.QueueFull, "full"))
	p, ok := problem.From(err)
	if !ok || p.Code != problem.QueueFull || p.Status != 429 {
		t.Fatalf("From = %+v, %v", p, ok)
	}
	if _, ok := problem.From(fmt.Errorf("plain")); ok {
		t.Fatal("a plain error is no problem")
	}
}

func TestUnknownCodeIsInternal(t *testing.T) {
	t.Parallel()
	if got := problem.New("made_up", "").Status; got != 500 {
		t.Fatalf("status %d, want 500", got)
	}
}
