package execute

import (
	"context"
	"os/exec"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/child"
)

// group is a command with all that it starts.
type group struct {
	command *exec.Cmd
	// patience is how long the group has after SIGTERM, by why it has to end.
	patience func(cause error) time.Duration
}

// run starts the command and waits for its end, which it brings about when ctx
// ends; cause is then why. The error is that of a command that did not start.
func (g *group) run(ctx context.Context) (cause, err error) {
	// SIGKILL where the worker itself was killed: the job will run elsewhere.
	started, err := child.Start(g.command, syscall.SIGKILL) // how it ended is in ProcessState
	if err != nil {
		return nil, err
	}
	select {
	case <-started.Ended():
	case <-ctx.Done():
		cause = context.Cause(ctx)
		g.stop(started.Ended(), g.patience(cause))
	}
	// What it has left running.
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

// signal goes to the whole group; there may be nobody left.
func (g *group) signal(signal syscall.Signal) {
	_ = syscall.Kill(-g.command.Process.Pid, signal)
}
