package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/child"
)

const (
	// escalateAfter is how long a signal of Stop after the first may take.
	// PostgreSQL itself gives its children 5 s after SIGQUIT.
	escalateAfter = 6 * time.Second
	// pollEvery is how often a starting server is asked whether it is ready.
	pollEvery = 10 * time.Millisecond
)

// Process is a server that runs as a child of this process. On Linux it ends no
// later than this process, even one killed by SIGKILL; elsewhere the next start
// names the pid of one that was left. It is in a process group of its own, so
// Ctrl-C in a terminal does not reach it, and the caller has to stop it.
type Process struct {
	name        string
	cmd         *exec.Cmd
	log         *logFile
	stopSignals []syscall.Signal // Stop sends them one after the other
	tidy        func()           // runs after the end, before Done closes; may be nil
	stopping    atomic.Bool
	done        chan struct{}
	err         error // written before done is closed
}

// Pid is the server's process id (PostgreSQL: the postmaster's).
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and its files are removed. Closed
// without a Stop, it means an unexpected end: see Err.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is nil as long as the process runs and after an orderly end that Stop
// asked for. Otherwise it says how the process ended, with its last log lines.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Kill sends SIGKILL, to the process alone, and does not wait: for fault tests.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Stop shuts the server down and waits for its end. When ctx ends first, harder
// signals follow, up to SIGKILL, and the error says so. Stopping a process that
// has ended does nothing and returns nil.
func (p *Process) Stop(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	p.stopping.Store(true)
	patience := ctx
	for i, signal := range p.stopSignals {
		// An error means that the process has ended, and done will be closed.
		_ = p.cmd.Process.Signal(signal)
		switch ended := p.endsBefore(patience); {
		case ended && i == 0:
			return p.err
		case ended:
			return fmt.Errorf("%s did not stop in time, and was ended by signal %q: %w", p.name, signal, context.Cause(ctx))
		}
		next, cancel := context.WithTimeout(context.WithoutCancel(ctx), escalateAfter)
		defer cancel()  //nolint:revive,gocritic // once for each of three signals
		patience = next //nolint:fatcontext // replaced, not nested: WithoutCancel takes the caller's
	}
	return fmt.Errorf("%s (pid %d) outlives SIGKILL", p.name, p.Pid())
}

func (p *Process) endsBefore(ctx context.Context) bool {
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// launch starts the process, which gets onDeath when this process dies. From here
// on its goroutine owns p.log and p.tidy, unless launch returns an error.
func (p *Process) launch(onDeath syscall.Signal) error {
	started, err := child.Start(p.cmd, onDeath)
	if err != nil {
		return err
	}
	p.done = make(chan struct{})
	go func() {
		p.err = p.verdict(started.Wait())
		_ = p.log.Close()
		if p.tidy != nil {
			p.tidy()
		}
		close(p.done)
	}()
	return nil
}

// verdict is the result of Err for an end.
func (p *Process) verdict(err error) error {
	if p.stopping.Load() && err == nil {
		return nil
	}
	how := "exit status 0"
	if err != nil {
		how = err.Error()
	}
	return fmt.Errorf("%s (pid %d) ended: %s%s", p.name, p.Pid(), how, quoteLog(p.log.tail()))
}

// await returns when ready is true. If the process ends before, the error has its
// last log lines; if ctx ends before, the process is stopped.
func (p *Process) await(ctx context.Context, ready func() bool) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return fmt.Errorf("while starting: %w", p.err)
		case <-ctx.Done():
			return p.abandon(ctx)
		case <-ticker.C:
			if ready() {
				return nil
			}
		}
	}
}

// abandon stops a server whose start was cancelled, and returns the cause.
func (p *Process) abandon(ctx context.Context) error {
	cause := fmt.Errorf("%s: start given up: %w", p.name, context.Cause(ctx))
	_ = p.Stop(ctx)
	return cause
}

// command prepares a child; a nil credential runs it as this process's own user.
func command(credential *syscall.Credential, path string, args ...string) *exec.Cmd {
	// Not CommandContext: the child's life ends with Stop, not with a context.
	cmd := exec.Command(path, args...) //nolint:noctx // see above
	cmd.Env = environment(os.Environ())
	// The child's user may not be allowed to enter the current folder.
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return cmd
}

// run runs a command that ends by itself, or by onDeath when this process dies. When ctx ends, its whole
// process group is killed; run returns only when all of the group has ended, because the output is a pipe
// that each of them holds. The error has the end of the output.
func run(ctx context.Context, cmd *exec.Cmd, onDeath syscall.Signal) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = escalateAfter
	started, err := child.Start(cmd, onDeath)
	if err != nil {
		return err
	}
	release := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err = started.Wait()
	release()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w%s", err, quoteLog(lastLines(output.Bytes())))
}

// environment is this process's without the variables that would change a server:
// PGPORT its port, the locale the language of its messages.
func environment(own []string) []string {
	env := []string{"LC_ALL=C"}
	for _, entry := range own {
		if strings.HasPrefix(entry, "PG") || strings.HasPrefix(entry, "LC_") || strings.HasPrefix(entry, "LANG") {
			continue
		}
		env = append(env, entry)
	}
	return env
}

// HeldError says that a folder is in use by a running server.
type HeldError struct {
	Server string // "PostgreSQL" or "Redis"
	Dir    string
	Pid    int // 0 when not known
}

func (e *HeldError) Error() string {
	if e.Pid == 0 {
		return fmt.Sprintf("%s is already running in %s: stop it, or choose another folder", e.Server, e.Dir)
	}
	return fmt.Sprintf("%s is already running in %s (pid %d): stop it, or choose another folder", e.Server, e.Dir, e.Pid)
}

// exists reports whether a file of any kind has that name.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
