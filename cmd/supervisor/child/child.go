// Package child starts processes that end no later than this one.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Child is a process that was started.
type Child struct {
	ended chan struct{}
	err   error
}

// Ended is closed when the process has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// Wait waits for the end and returns the result of the command's own Wait.
func (c *Child) Wait() error {
	<-c.ended
	return c.err
}

// Start starts a command in a process group of its own: Ctrl-C in a terminal does not reach it, and the
// caller has to stop it. If this process dies first, even by SIGKILL, the kernel sends onDeath to the
// command, but not to its children. Only Linux does: elsewhere the command outlives a killed parent.
func Start(command *exec.Cmd, onDeath syscall.Signal) (*Child, error) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	setGroup(command.SysProcAttr)
	setDeathSignal(command.SysProcAttr, onDeath)
	c, started := &Child{ended: make(chan struct{})}, make(chan error, 1)
	go func() {
		defer close(c.ended)
		// The death signal is bound to the thread that forked, not to the process, and Go ends idle
		// threads: this goroutine keeps its thread to itself until the command has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			c.err = command.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}
