package child

import "syscall"

// setDeathSignal asks the kernel to send the child a signal when the thread
// that started it dies. Go sets it after the change of user, which clears it.
func setDeathSignal(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
