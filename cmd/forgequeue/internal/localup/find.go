//go:build unix

package localup

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// CredentialsFile is the file in a data folder that has the addresses and keys.
const CredentialsFile = "credentials.json"

// DefaultData is the data folder without --data-dir: /var/lib for root, whose home PostgreSQL's user could not enter,
// else the user's data folder (XDG Base Directory Specification).
func DefaultData() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/forgequeue", nil
	}
	if base := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "forgequeue"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("where to keep the data is not clear (%w); say it with --data-dir DIR", err)
	}
	return filepath.Join(home, ".local", "share", "forgequeue"), nil
}

// findRunning reads a data folder. It finds nothing if the folder is another user's, or if no `up` runs on it.
func findRunning(dir string) (Running, bool) {
	if !held(dir) {
		return Running{}, false
	}
	var kept struct {
		Gateway     string `json:"gateway"`
		APIKey      string `json:"api_key"`
		OperatorKey string `json:"operator_key"`
		DatabaseURL string `json:"database_url"`
		RedisURL    string `json:"redis_url"`
	}
	content, err := os.ReadFile(filepath.Join(dir, CredentialsFile))
	if err != nil || json.Unmarshal(content, &kept) != nil || kept.Gateway == "" || kept.APIKey == "" {
		return Running{}, false
	}
	return Running{
		Gateway: kept.Gateway, APIKey: kept.APIKey, OperatorKey: kept.OperatorKey,
		DatabaseURL: kept.DatabaseURL, RedisURL: kept.RedisURL, Data: dir,
	}, true
}
