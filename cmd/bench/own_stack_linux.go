package bench

import "syscall"

// dieWithParent stops the stack in good order even when this process is killed.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
