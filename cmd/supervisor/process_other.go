//go:build !linux

package supervisor

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

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
