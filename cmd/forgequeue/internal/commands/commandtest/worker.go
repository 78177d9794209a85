package commandtest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"time"
)

// Worker is a `worker run` in this process.
type Worker struct {
	// Stop makes it stop, as a signal does.
	Stop  context.CancelFunc
	ended chan int
	errs  *Buffer
}

// Work starts a `worker run`, which ends with the test.
func (f *Fixture) Work(args ...string) *Worker {
	ctx, stop := context.WithCancel(f.Context())
	w := &Worker{Stop: stop, ended: make(chan int, 1), errs: &Buffer{}}
	run := f.Start(&Buffer{}, w.errs, "")
	go func() { w.ended <- run(ctx, append([]string{"worker", "run"}, args...)...) }()
	f.Cleanup(func() {
		stop()
		w.Wait(f)
		if f.Failed() {
			f.Logf("the worker wrote:\n%s", w.errs)
		}
	})
	return w
}

// Wait returns the exit code.
func (w *Worker) Wait(f *Fixture) int {
	f.Helper()
	select {
	case code := <-w.ended:
		w.ended <- code
		return code
	case <-time.After(40 * time.Second):
		f.Fatal("the worker does not end")
		return -1
	}
}

// Process starts a command in a process of its own, for tests that send it signals. Its standard error is a *[Buffer].
func (f *Fixture) Process(args ...string) *exec.Cmd {
	f.Helper()
	return f.ProcessTo(&Buffer{}, args...)
}

// ProcessTo is Process with another standard error.
func (f *Fixture) ProcessTo(errs io.Writer, args ...string) *exec.Cmd {
	f.Helper()
	command := exec.CommandContext(context.WithoutCancel(f.Context()), os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=1")
	for name, value := range f.env {
		command.Env = append(command.Env, name+"="+value)
	}
	command.Stderr = errs
	if err := command.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		_ = command.Wait()
		if f.Failed() {
			f.Logf("the process wrote:\n%s", errs)
		}
	})
	return command
}
