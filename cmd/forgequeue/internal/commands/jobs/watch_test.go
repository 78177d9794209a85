package jobs_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

var escapes = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

func TestAListIsWatchedOnATerminal(t *testing.T) {
	f := commandtest.New(t)
	queue := f.Queue()
	first := f.Submitted("mail", "--queue", queue, "--user", "ada")
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	const columns = 100
	terminal := f.OnTerminal(ctx, columns, 10, "jobs", "--queue", queue, "--watch")
	f.Eventually("the first job", func() bool { return strings.Contains(terminal.Screen(), first) })
	second := f.Submitted("mail", "--queue", queue)
	f.Eventually("the second job", func() bool { return strings.Contains(terminal.Screen(), second) })
	for range 12 {
		f.Submitted("mail", "--queue", queue)
	}
	f.Eventually("no more than the lines of the terminal", func() bool { return strings.Contains(terminal.Screen(), "…\x1b[K") })
	cancel()
	r := terminal.Wait()
	if r.Code != 0 || r.Err != "" {
		t.Errorf("interrupted: %+v", r)
	}
	for line := range strings.SplitSeq(escapes.ReplaceAllString(r.Out, ""), "\n") {
		if line = strings.TrimRight(line, "\r"); utf8.RuneCountInString(line) > columns {
			t.Errorf("%d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
	if !strings.Contains(r.Out, "ago") {
		t.Errorf("no relative times: %q", r.Out)
	}
}

func TestAListIsWatchedByAProgram(t *testing.T) {
	f := commandtest.New(t)
	queue := f.Queue()
	id := f.Submitted("mail", "--queue", queue)
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	var out, errs commandtest.Buffer
	ended := make(chan int, 1)
	go func() { ended <- f.Start(&out, &errs, "")(ctx, "jobs", "--queue", queue, "--watch", "-o", "jsonl") }()
	f.Eventually("the job", func() bool { return strings.Contains(out.String(), id) })
	f.Must("job", "cancel", id)
	f.Eventually("its change", func() bool { return strings.Contains(out.String(), api.StateCancelled) })
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("interrupted: exit code %d\n%s", code, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	for i, state := range []string{api.StateQueued, api.StateCancelled} {
		if job := commandtest.Decode[api.JobSummary](f, lines[i]); job.ID != id || job.State != state {
			t.Errorf("line %d: %s", i, lines[i])
		}
	}
	for _, args := range [][]string{{}, {"-o", "json"}, {"-o", "jsonl", "--limit", "0"}} {
		f.Want(2, []string{"--watch"}, append([]string{"jobs", "--watch"}, args...)...)
	}
}

// A server that does not answer for a while is no reason to end; a key that is refused is one.
func TestAWatchOutlivesItsServersRestart(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch call := calls.Add(1); {
		case call == 1:
			_ = json.NewEncoder(w).Encode(api.Page[api.JobSummary]{Items: []api.JobSummary{{ID: "one"}}})
		case call < 10:
			w.WriteHeader(http.StatusServiceUnavailable)
		case call == 10:
			_ = json.NewEncoder(w).Encode(api.Page[api.JobSummary]{Items: []api.JobSummary{{ID: "one"}, {ID: "two"}}})
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer server.Close()
	f := commandtest.On(t, server.URL)
	if r := f.Run("jobs", "--watch", "-o", "name"); r.Code != 1 || r.Out != "one\ntwo\n" || !strings.Contains(r.Err, "no answer") {
		t.Errorf("%+v", r)
	}
}
