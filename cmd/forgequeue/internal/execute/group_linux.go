package execute

import "syscall"

// dieWithParent ends the command even when the worker is killed with SIGKILL: its
// job will run elsewhere. It reaches the command itself, not what that has started.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
