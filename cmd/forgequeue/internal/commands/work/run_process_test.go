package work_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestWorkerRunDrainsAtSIGTERM(t *testing.T) {
	f := commandtest.New(t)
	q, dir := f.Queue(), t.TempDir()
	w := f.Process("worker", "run", "-q", q, "--worker-id", "drains-"+q, "--", "sh", "-c", `echo $$ > `+dir+`/pid; sleep 1; echo finished`)
	id := f.Submitted("x", "-q", q)
	pidIn(f, dir, "pid")
	if r := f.Run("workers", "--limit", "0"); !strings.Contains(r.Out, "drains-"+q) {
		t.Errorf("the worker is not listed: %s", r.Out)
	}
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(); err != nil {
		t.Errorf("%v", err)
	}
	if job := f.State(id); job.State != api.StateCompleted {
		t.Errorf("the job is %s", job.State)
	}
	if r := f.Run("workers", "--limit", "0"); r.Code != 0 || strings.Contains(r.Out, "drains-"+q) {
		t.Errorf("the worker is listed after its end: %s", r.Out)
	}
}

// The first signal drains, the second ends the process at once, and what it ran
// with it.
func TestWorkerRunEndsAtTheSecondSignal(t *testing.T) {
	f := commandtest.New(t)
	q, dir := f.Queue(), t.TempDir()
	w := f.Process("worker", "run", "-q", q, "--", "sh", "-c", `echo $$ > `+dir+`/pid; while :; do sleep 0.1; done`)
	f.Submitted("x", "-q", q)
	pid := pidIn(f, dir, "pid")
	if err := w.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	f.Eventually("the worker stops", func() bool { return strings.Contains(w.Stderr.(*commandtest.Buffer).String(), "worker stopping") })
	if err := w.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ended, _ := errors.AsType[*exec.ExitError](w.Wait())
	if ended == nil || time.Since(began) > 10*time.Second { // the grace is 20 s
		t.Fatalf("ended with %v after %v", ended, time.Since(began))
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGINT {
		t.Errorf("ended with %v", ended)
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil { // only Linux ends a child with its parent
		f.Eventually("the command is gone", func() bool { return !alive(pid) })
	}
}

// A worker that is killed takes its command with it: the job is going to run
// elsewhere.
func TestWorkerRunKilledWorker(t *testing.T) {
	f := commandtest.New(t)
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux ends a child with its parent")
	}
	q, dir := f.Queue(), t.TempDir()
	f.Must("queues", "set", q, "--visibility-timeout", "2s")
	w := f.Process("worker", "run", "-q", q, "--", "sh", "-c", `echo $$ > `+dir+`/pid; while :; do sleep 0.1; done`)
	id := f.Submitted("x", "-q", q)
	pid := pidIn(f, dir, "pid")
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.Eventually("the command is gone", func() bool { return !alive(pid) })
	f.Work("-q", q, "--", "echo", "elsewhere")
	began := time.Now()
	if job := f.Ended(id); job.State != api.StateCompleted || string(job.Result) != `"elsewhere"` || job.Attempt != 2 {
		t.Errorf("%s %s, attempt %d after %v", job.State, job.Result, job.Attempt, time.Since(began))
	}
}

// A worker whose log has no reader any more ends what runs, and then itself, with a code: SIGPIPE would end it at once.
func TestWorkerRunWithoutAReaderOfItsLog(t *testing.T) {
	f := commandtest.New(t)
	q, dir := f.Queue(), t.TempDir()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := f.ProcessTo(write, "worker", "run", "-q", q, "--", "sh", "-c", `echo $$ > `+dir+`/pid; while [ ! -e `+dir+`/go ]; do sleep 0.1; done; echo a word >&2; sleep 1; echo finished`)
	_ = write.Close()
	id := f.Submitted("x", "-q", q)
	pidIn(f, dir, "pid")
	_ = read.Close()
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended, _ := errors.AsType[*exec.ExitError](w.Wait())
	if ended == nil || ended.ExitCode() != 1 {
		t.Errorf("ended with %v", ended)
	}
	if job := f.State(id); job.State != api.StateCompleted {
		t.Errorf("the job is %s", job.State)
	}
}

// Without a queue and a type a command would get jobs that it was not made for.
func TestWorkerRunNeedsAQueueOrATypeOfJobs(t *testing.T) {
	f := commandtest.New(t)
	f.Want(2, []string{"--queue", "--type"}, "worker", "run", "--", "cat")
}
