//go:build !linux

package child

import "syscall"

// setDeathSignal does nothing: only Linux tells a child of its parent's death.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
