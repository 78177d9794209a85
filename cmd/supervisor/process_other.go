//go:build !linux

package supervisor

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// setDeathSignal does nothing: only Linux tells a child of its parent's death.
// A server outlives a killed parent here, and the next start names its pid.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}

// processName is the program that a living process runs; empty when there is
// no such process.
func processName(pid int) string {
	out, err := exec.Command("ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	name := strings.TrimSpace(string(out))
	if err != nil || name == "" {
		return ""
	}
	return filepath.Base(name)
}
