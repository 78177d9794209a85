//go:build unix

package execute

import (
	"os"
	"syscall"
)

// family is a command and what it has started: its process group.
type family struct{ pid int }

func familyOf(command *os.Process) family { return family{command.Pid} }

// terminate asks all of it to end.
func (f family) terminate() { f.signal(syscall.SIGTERM) }

func (f family) kill() { f.signal(syscall.SIGKILL) }

// end kills what is left of it, when the command has ended.
func (f family) end() { f.kill() }

// signal goes to the whole group, which may have ended.
func (f family) signal(signal syscall.Signal) { _ = syscall.Kill(-f.pid, signal) }
