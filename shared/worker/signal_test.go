package worker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// childEnv makes this test binary a worker process on the server it names.
const childEnv = "FORGEQUEUE_WORKER_TEST_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(childEnv); url != "" {
		os.Exit(child(url))
	}
	os.Exit(m.Run())
}

// child has handlers for jobs that listen to their context, and for some that do not.
func child(url string) int {
	c, err := client.New(client.Options{URL: url, APIKey: "k"})
	if err != nil {
		return 2
	}
	// One slot, so that no claim of this worker waits for the job it gives back.
	w, err := worker.New(worker.Options{Client: c, Concurrency: 1, Grace: -1, Logger: slog.New(slog.NewJSONHandler(os.Stdout, nil))})
	if err != nil {
		return 2
	}
	worker.Handle(w, "listens", func(ctx context.Context, _ *worker.RawJob) (any, error) {
		fmt.Println("handler started")
		<-ctx.Done()
		return nil, ctx.Err()
	})
	worker.Handle(w, "deaf", func(context.Context, *worker.RawJob) (any, error) {
		fmt.Println("handler started")
		select {}
	})
	if err := w.RunUntilSignal(context.Background()); err != nil {
		return 1
	}
	return 0
}

// startChild runs a worker process until its handler for the one job has started,
// and gives a function that reads its output on to a line that holds a text.
func startChild(t *testing.T, jobType string) (s *server, id string, process *exec.Cmd, until func(text string)) {
	t.Helper()
	s = serve(t)
	web := httptest.NewServer(s.handler)
	t.Cleanup(web.Close)
	id = s.submit(jobType, `null`)
	process = exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), childEnv+"="+web.URL)
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	lines := bufio.NewScanner(output)
	until = func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("the worker ended without saying %q", text)
	}
	until("handler started")
	return s, id, process, until
}

func TestTheFirstSignalBeginsTheStop(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			s, id, process, until := startChild(t, "listens")
			if err := process.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			until("worker stopped")
			if err := process.Wait(); err != nil {
				t.Errorf("the process ended with %v", err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if j := s.find(id); j.state != api.StateQueued || j.Attempt != 0 {
				t.Errorf("the job is %s with %d attempts spent", j.state, j.Attempt)
			}
			if len(s.known) > 0 || len(s.left) != 1 {
				t.Errorf("after the stop the server knows %v; said goodbye: %v", s.known, s.left)
			}
		})
	}
}

func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	_, _, process, until := startChild(t, "deaf")
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until("worker stopping")
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := process.Wait(); !errors.As(err, &ended) {
		t.Fatalf("the process ended with %v", err)
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("the process ended as %v", ended)
	}
}

func TestRunUntilSignalEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w, err := worker.New(worker.Options{Client: s.client, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	worker.Handle(w, "n", func(context.Context, *worker.RawJob) (any, error) { return nil, nil })
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := w.RunUntilSignal(ctx); err != nil {
		t.Errorf("RunUntilSignal = %v", err)
	}
}
