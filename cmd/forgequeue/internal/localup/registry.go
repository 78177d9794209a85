//go:build unix

package localup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// The registry is a folder of the user's with a file for each `up` that runs, so that commands find those with a data
// folder of their own choice. A file has the path of the data folder, and no secret.

type registration struct {
	Data string `json:"data"`
}

// registry is in the user's folder of state (XDG Base Directory Specification).
func registry() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "forgequeue", "up"), nil
}

// Register says that the `up` of a data folder is ready: until unregister is called or the process ends, however it
// ends, Find finds it. The process must be the only one that uses the folder. After an error only an `up` on the default
// folder may be found. A file that a killed process leaves in the registry names no `up` that runs, and is written again
// by the next one on the same folder.
func Register(data string) (unregister func(), err error) {
	release, err := hold(data)
	if err != nil {
		return func() {}, err
	}
	remove, err := enter(data)
	return func() { remove(); release() }, err
}

// enter writes a file of the registry.
func enter(data string) (remove func(), err error) {
	dir, err := registry()
	if err != nil {
		return func() {}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return func() {}, err
	}
	sum := sha256.Sum256([]byte(data))
	name := filepath.Join(dir, hex.EncodeToString(sum[:8])+".json")
	content, err := json.Marshal(registration{data})
	if err == nil {
		err = os.WriteFile(name, content, 0o600)
	}
	if err != nil {
		return func() {}, err
	}
	return func() { _ = os.Remove(name) }, nil
}

// Find looks for the user's `up`s that run on this machine, the one on the default data folder first. It does
// not find one of another user, or one that has ended.
func Find() []Running {
	var folders []string
	if usual, err := DefaultData(); err == nil {
		folders = append(folders, usual)
	}
	var all []Running
	for _, dir := range append(folders, registered()...) {
		known := slices.ContainsFunc(all, func(r Running) bool { return r.Data == dir })
		if r, ok := findRunning(dir); ok && !known {
			all = append(all, r)
		}
	}
	return all
}

// registered are the data folders of the registry. Files of `up`s whose data folder has gone are removed.
func registered() []string {
	dir, err := registry()
	if err != nil {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.json")) // it fails for a bad pattern only
	var folders []string
	for _, name := range files {
		content, err := os.ReadFile(name)
		var one registration
		if err != nil || json.Unmarshal(content, &one) != nil || one.Data == "" {
			continue
		}
		if _, err := os.Stat(one.Data); errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(name)
			continue
		}
		folders = append(folders, one.Data)
	}
	return folders
}
