//go:build unix

package up

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// findRunning reads a data folder. It finds nothing if the folder is another user's, or if the process has ended.
func findRunning(dir string) (Running, bool) {
	// The process id in the lock file, and not the lock itself: taking the lock, even
	// for a moment, could make an `up` that starts just now fail.
	content, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		return Running{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || pid <= 0 || syscall.Kill(pid, 0) != nil {
		return Running{}, false
	}
	var kept credentials
	content, err = os.ReadFile(filepath.Join(dir, credentialsFile))
	if err != nil || json.Unmarshal(content, &kept) != nil || kept.Gateway == "" || kept.APIKey == "" {
		return Running{}, false
	}
	return Running{
		Gateway: kept.Gateway, APIKey: kept.APIKey, OperatorKey: kept.OperatorKey,
		DatabaseURL: kept.DatabaseURL, RedisURL: kept.RedisURL, Data: dir,
	}, true
}
