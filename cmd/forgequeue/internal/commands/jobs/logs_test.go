package jobs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// What a command writes can be read while it runs, before its line is whole; its standard output is its result all the same.
func TestJobLogs(t *testing.T) {
	f := commandtest.New(t)
	q, silent := f.Queue(), f.Queue()
	dir := t.TempDir()
	f.Work("-q", q, "--", "sh", "-c", `echo one; echo two >&2; printf 'Password: ' >&2; while [ ! -e `+dir+`/go ]; do sleep 0.05; done; printf '\033[31mred\tend'`)
	f.Work("-q", silent, "--silent", "--", "sh", "-c", `echo one; echo two >&2`)
	id := f.Submitted("x", "-q", q)
	var out, errs commandtest.Buffer
	ended := make(chan int, 1)
	go func() { ended <- f.Start(&out, &errs, "")(f.Context(), "job", "logs", id, "-f") }()
	f.Eventually("the prompt", func() bool { return strings.Contains(out.String(), "Password: ") })
	watched := f.OnTerminal(f.Context(), 100, 30, "job", "watch", id)
	f.Eventually("the lines below the job", func() bool { return strings.Contains(watched.Screen(), "  | two") })
	if job := f.State(id); job.State != api.StateRunning {
		t.Errorf("the job is %s", job.State)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if job := f.Ended(id); string(job.Result) != `"one\n\u001b[31mred\tend"` {
		t.Errorf("%s with %s", job.State, job.Result)
	}
	const red = "\x1b[31mred\tend"
	if code := <-ended; code != 0 || errs.String() != "" {
		t.Errorf("exit code %d\n%s", code, errs.String())
	}
	got := out.String()
	if len(got) != len("one\ntwo\nPassword: "+red) || !strings.HasSuffix(got, red) { // standard error may come first
		t.Errorf("%q", got)
	}
	if whole := f.Must("job", "logs", id); whole != got {
		t.Errorf("%q, and followed %q", whole, got)
	}
	if some := f.Must("job", "logs", id, "--stream", "out,log"); some != "one\n"+red {
		t.Errorf("%q", some)
	}
	lines := strings.Split(strings.TrimSpace(f.Must("job", "logs", id, "--stream", "err", "-o", "jsonl")), "\n")
	if piece := commandtest.Decode[api.Output](f, lines[0]); piece.Stream != api.OutputErr || !strings.HasPrefix(piece.Text, "two\n") || piece.ID == "" {
		t.Errorf("%q", lines)
	}
	if r := watched.Wait(); r.Code != 0 || !strings.Contains(r.Out, "  | one\r") || !strings.Contains(r.Out, "[31mred\tend") || strings.Contains(r.Out, "\x1b[31mred") {
		t.Errorf("%+v", r)
	}
	if r := f.OnTerminal(f.Context(), 100, 30, "job", "logs", id).Wait(); strings.Contains(r.Out, "\x1b") {
		t.Errorf("%q", r.Out)
	}

	quiet := f.Submitted("x", "-q", silent)
	if job := f.Ended(quiet); string(job.Result) != `"one"` || job.Output != nil {
		t.Errorf("%s with %s", job.State, job.Result)
	}
	f.Want(0, []string{"The job has written nothing."}, "job", "logs", quiet)
	f.Want(0, nil, "job", "logs", quiet, "--follow")
	f.Want(2, []string{"--stream", "out, err, log"}, "job", "logs", id, "--stream", "stdout")
	for _, more := range []string{"--stream=out", "--follow"} {
		f.Want(1, []string{"not_found"}, "job", "logs", "0199f0a4-7c1e-7000-8000-5d2c6f1e9a10", more)
	}
}

// Where the key has too many streams open, the output is read again and again. A line says where some is missing.
func TestJobLogsWithoutAStream(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/events"):
			problem.New(problem.RateLimited, "too many").Write(w)
		case strings.HasSuffix(r.URL.Path, "/output"):
			reads.Add(1)
			after, _ := api.ParseOutputPlace(r.URL.Query().Get("after"))
			n := after.Seq + 1
			if strings.Contains(r.URL.Path, "j2") {
				n = 2
			}
			_, _ = fmt.Fprintf(w, `{"items":[{"id":"1.%d","stream":"%s","text":"part %d","gap":%v}]}`, n, []string{"out", "err"}[n%2], n, n == 2)
		case reads.Load() < 2:
			_, _ = fmt.Fprint(w, `{"id":"j1","state":"running"}`)
		default:
			_, _ = fmt.Fprint(w, `{"id":"j1","state":"completed"}`)
		}
	}))
	defer server.Close()
	f := commandtest.On(t, server.URL)
	if r := f.Run("job", "logs", "j1", "--follow"); r.Code != 0 || r.Out != "part 1\n[... output is missing here ...]\npart 2part 3" {
		t.Errorf("%+v", r)
	}
	if r := f.Run("job", "logs", "j2", "--stream", "err"); r.Code != 0 || r.Out != "[... output is missing here ...]\n" {
		t.Errorf("%+v", r)
	}
}
