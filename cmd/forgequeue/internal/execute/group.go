package execute

import (
	"context"
	"os/exec"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/child"
)

// group is a command's process group.
type group struct {
	command *exec.Cmd
	// patience is the time between SIGTERM and SIGKILL, by the cause of the stop.
	patience func(cause error) time.Duration
}

// run starts the command and waits for its end. When ctx ends first, it stops the group, and cause is ctx's. An
// error means that the command did not start.
func (g *group) run(ctx context.Context) (cause, err error) {
	// SIGKILL if the worker itself is killed: the job will run on another one.
	started, err := child.Start(g.command, syscall.SIGKILL) // the exit status is in ProcessState
	if err != nil {
		return nil, err
	}
	select {
	case <-started.Ended():
	case <-ctx.Done():
		cause = context.Cause(ctx)
		g.stop(started.Ended(), g.patience(cause))
	}
	// The processes that it left running.
	g.signal(syscall.SIGKILL)
	return cause, nil
}

func (g *group) stop(ended <-chan struct{}, patience time.Duration) {
	g.signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(patience):
		g.signal(syscall.SIGKILL)
		<-ended
	}
}

// signal goes to the whole group, which may have ended.
func (g *group) signal(signal syscall.Signal) {
	_ = syscall.Kill(-g.command.Process.Pid, signal)
}
