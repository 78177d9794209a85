//go:build !linux

package child

import "syscall"

// setDeathSignal does nothing: only Linux signals the death of a parent to its child.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
