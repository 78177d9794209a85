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
	// grace is the time between SIGTERM and SIGKILL, by the cause of the stop.
	grace func(cause error) time.Duration
}

// run starts the command and waits for its end. When ctx ends first, it stops the group, and cause is ctx's. An
// error means that the command did not start.
func (g *group) run(ctx context.Context) (cause, err error) {
	// SIGKILL if the worker itself is killed: the job will run on another one.
	started, err := child.Start(g.command, syscall.SIGKILL) // the exit status is in ProcessState
	if err != nil {
		return nil, err
	}
	family := familyOf(g.command.Process)
	defer family.end() // the processes that it left running
	select {
	case <-started.Ended():
	case <-ctx.Done():
		cause = context.Cause(ctx)
		stop(family, started.Ended(), g.grace(cause))
	}
	return cause, nil
}

func stop(family family, ended <-chan struct{}, grace time.Duration) {
	family.terminate()
	select {
	case <-ended:
	case <-time.After(grace):
		family.kill()
		<-ended
	}
}
