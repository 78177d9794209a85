package cli_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// workProcess is `worker run` in a process of its own.
func (f *fixture) workProcess(args ...string) *exec.Cmd {
	f.Helper()
	command := exec.CommandContext(context.WithoutCancel(f.Context()), os.Args[0], append([]string{"worker", "run"}, args...)...)
	command.Env = append(os.Environ(), asProgram+"=1", "FORGEQUEUE_URL="+f.Ready.Gateway, "FORGEQUEUE_API_KEY="+f.Ready.APIKey)
	errs := &buffer{}
	command.Stderr = errs
	if err := command.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		_ = command.Wait()
		if f.Failed() {
			f.Logf("the worker wrote:\n%s", errs)
		}
	})
	return command
}

func TestWorkerRunDrainsAtSIGTERM(t *testing.T) {
	f := newFixture(t)
	q, dir := f.queue(), t.TempDir()
	w := f.workProcess("-q", q, "--", "sh", "-c", `echo $$ > `+dir+`/pid; sleep 1; echo finished`)
	id := f.submitted("x", "-q", q)
	f.pid(dir, "pid")
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(); err != nil {
		t.Errorf("%v", err)
	}
	if job := f.state(id); job.State != api.StateCompleted {
		t.Errorf("the job is %s", job.State)
	}
}

// The first signal drains, the second ends the process at once, and what it ran
// with it.
func TestWorkerRunEndsAtTheSecondSignal(t *testing.T) {
	f := newFixture(t)
	q, dir := f.queue(), t.TempDir()
	w := f.workProcess("-q", q, "--", "sh", "-c", `echo $$ > `+dir+`/pid; while :; do sleep 0.1; done`)
	f.submitted("x", "-q", q)
	pid := f.pid(dir, "pid")
	if err := w.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	f.eventually("the worker stops", func() bool { return strings.Contains(w.Stderr.(*buffer).String(), "worker stopping") })
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
		f.eventually("the command is gone", func() bool { return !alive(pid) })
	}
}

// A worker that is killed takes its command with it: the job is going to run
// elsewhere.
func TestWorkerRunKilledWorker(t *testing.T) {
	f := newFixture(t)
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux ends a child with its parent")
	}
	q, dir := f.queue(), t.TempDir()
	f.must("queues", "set", q, "--visibility-timeout", "2s")
	w := f.workProcess("-q", q, "--", "sh", "-c", `echo $$ > `+dir+`/pid; while :; do sleep 0.1; done`)
	id := f.submitted("x", "-q", q)
	pid := f.pid(dir, "pid")
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.eventually("the command is gone", func() bool { return !alive(pid) })
	f.work("-q", q, "--", "echo", "elsewhere")
	began := time.Now()
	if job := f.ended(id); job.State != api.StateCompleted || string(job.Result) != `"elsewhere"` || job.Attempt != 2 {
		t.Errorf("%s %s, attempt %d after %v", job.State, job.Result, job.Attempt, time.Since(began))
	}
}
