//go:build unix

package up

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
)

// HeldError says that another process uses the data folder.
type HeldError struct {
	Dir string
	// Pid is that of the other process, 0 if it could not be read.
	Pid int
}

func (e *HeldError) Error() string {
	holder := "another process"
	if e.Pid > 0 {
		holder = fmt.Sprintf("the process %d", e.Pid)
	}
	return fmt.Sprintf("%s already runs forgequeue on %s; stop it first, or choose another folder with --data-dir DIR", holder, e.Dir)
}

// folder is the data folder, locked by this process.
type folder struct {
	path string
	lock *os.File
}

// openFolder makes the folder if it is missing, and locks it. The kernel releases the lock when the process ends.
func openFolder(path string) (*folder, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// 0711: PostgreSQL's user can enter its folder below, and no other user can list this one.
	if err := os.MkdirAll(absolute, 0o711); err != nil { //nolint:gosec // see above
		return nil, &SettingError{fmt.Errorf("the data folder cannot be made: %w; choose another one with --data-dir DIR", err)}
	}
	name := filepath.Join(absolute, "lock")
	lock, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, &SettingError{fmt.Errorf("the data folder cannot be used: %w; choose another one with --data-dir DIR", err)}
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		content, _ := os.ReadFile(name)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(content)))
		_ = lock.Close()
		return nil, &HeldError{Dir: absolute, Pid: pid}
	}
	f := &folder{path: absolute, lock: lock}
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.close()
		return nil, &SettingError{fmt.Errorf("the data folder cannot be written: %w; choose another one with --data-dir DIR", err)}
	}
	return f, nil
}

func (f *folder) close() { _ = f.lock.Close() }

func (f *folder) join(name string) string { return filepath.Join(f.path, name) }

// credentials are the secrets and keys of this installation. They are in the data folder, mode 0600, and a
// restart uses them again.
type credentials struct {
	HopSecret   string `json:"hop_secret"`
	KeySecret   string `json:"key_secret"`
	PushKey     string `json:"push_secrets_key"`
	Console     string `json:"console_secret"`
	OperatorKey string `json:"operator_key"`
	Tenant      string `json:"tenant"`
	APIKey      string `json:"api_key"`
	PlatformKey string `json:"platform_key"`
	// Gateway is the URL of the last run, for commands on this machine.
	Gateway string `json:"gateway"`
	// DatabaseURL and RedisURL are the stores that the last run started itself. Those
	// of the environment are not stored: they may contain passwords.
	DatabaseURL string `json:"database_url,omitempty"`
	RedisURL    string `json:"redis_url,omitempty"`
}

// loadCredentials reads them, or makes the secrets of a new installation.
func (f *folder) loadCredentials() (credentials, error) {
	var c credentials
	content, err := os.ReadFile(f.join(localup.CredentialsFile))
	if err == nil {
		if err := json.Unmarshal(content, &c); err != nil {
			return c, fmt.Errorf("%s cannot be read (%w); put it back from a copy, or move it away to get new keys", f.join(localup.CredentialsFile), err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return c, err
	}
	for _, secret := range []*string{&c.HopSecret, &c.KeySecret, &c.PushKey, &c.Console} {
		if *secret == "" {
			*secret = newSecret()
		}
	}
	if c.OperatorKey == "" {
		c.OperatorKey = "fq_operator_" + rand.Text() + rand.Text()
	}
	return c, f.saveCredentials(c)
}

// saveCredentials replaces the file atomically.
func (f *folder) saveCredentials(c credentials) error {
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	temporary := f.join(localup.CredentialsFile + ".new")
	if err := os.WriteFile(temporary, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("the keys cannot be kept: %w", err)
	}
	return os.Rename(temporary, f.join(localup.CredentialsFile))
}

func newSecret() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // it never returns an error
	return base64.RawURLEncoding.EncodeToString(raw)
}
