//go:build !linux

package execute

import "syscall"

// dieWithParent has no way here: the command of a worker that was killed with
// SIGKILL goes on until it ends by itself.
func dieWithParent(*syscall.SysProcAttr) {}
