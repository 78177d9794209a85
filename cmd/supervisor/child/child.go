// Package child starts processes that end no later than this one.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a command in a process group of its own: Ctrl-C in a terminal does not reach it, and to
// stop it is its owner's work. Where this process dies without having done so, even by SIGKILL, the
// kernel sends onDeath to the command, not to what that has started. Only Linux does: elsewhere the
// command outlives a killed parent.
//
// ended gives what command.Wait has returned, and is closed.
func Start(command *exec.Cmd, onDeath syscall.Signal) (ended <-chan error, err error) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	setDeathSignal(command.SysProcAttr, onDeath)
	started, end := make(chan error, 1), make(chan error, 1)
	go func() {
		defer close(end)
		// The death signal is bound to the thread that forked, not to the process, and Go ends idle
		// threads: this goroutine keeps its thread to itself until the command has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			end <- command.Wait()
		}
	}()
	return end, <-started
}
