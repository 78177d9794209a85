package supervisor

import (
	"fmt"
	"os"
	"strings"
)

// processName is the program that a living process runs; empty when there is
// no such process, or only a zombie.
func processName(pid int) string {
	// /proc/PID/stat: "PID (name) STATE ...", where the name may hold anything.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), "(")
	end := strings.LastIndex(rest, ") ")
	if end < 0 || strings.HasPrefix(rest[end+2:], "Z") || strings.HasPrefix(rest[end+2:], "X") {
		return ""
	}
	return rest[:end]
}
