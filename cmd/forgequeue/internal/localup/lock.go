//go:build unix

package localup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// runningFile is a file in a data folder that an `up` holds a lock on while it is ready. The kernel releases the lock
// when the process ends; a process id in a file could be another process's by then.
//
// It is not the lock that keeps a second `up` off the folder: to ask for that one, Find would have to take it for a
// moment, and an `up` that starts just then would fail. For this one an `up` waits.
const runningFile = "running"

// hold takes the lock. Only processes that ask, and have it for a moment, are waited for.
func hold(data string) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(data, runningFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(file, syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return func() { _ = file.Close() }, nil
}

// held says whether a process holds the lock.
func held(data string) bool {
	file, err := os.Open(filepath.Join(data, runningFile))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	return errors.Is(flock(file, syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

func flock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
