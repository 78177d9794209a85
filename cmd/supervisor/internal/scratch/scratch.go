// Package scratch makes private folders that do not accumulate: those of killed
// processes are removed by the next process that makes one.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Folder is a private folder. Its process holds a lock on it, which the kernel
// releases when the process ends: a folder that can be locked is not in use.
type Folder struct {
	Path string
	lock *os.File
}

// attempts bounds how often Make tries again after another process's sweep has
// removed its new folder, which can happen in the microseconds before it is locked.
const attempts = 10

// Make removes the folders of dead processes below parent with the same prefix, and
// makes a new one there, mode 0700.
func Make(parent, prefix string) (*Folder, error) {
	sweep(parent, prefix)
	for range attempts {
		path, err := os.MkdirTemp(parent, prefix)
		if err != nil {
			return nil, err
		}
		locked, err := lock(path)
		switch {
		case err == nil:
			return &Folder{Path: path, lock: locked}, nil
		case !errors.Is(err, errTaken):
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
	return nil, fmt.Errorf("cannot keep a new folder %s* in %s: each is removed at once", prefix, parent)
}

// Remove removes the folder and all in it.
func (f *Folder) Remove() error {
	err := os.RemoveAll(f.Path)
	f.Keep()
	return err
}

// Keep releases the lock and keeps the folder. Rename it first: a sweep removes
// folders with the prefix.
func (f *Folder) Keep() {
	_ = f.lock.Close() // opened for reading only
}

// errTaken is a folder that another process's sweep removes or has removed.
var errTaken = errors.New("taken by a sweep")

// lock locks the folder.
func lock(path string) (*os.File, error) {
	// NOFOLLOW: the parent may be /tmp, where any user can make a link.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	// Where the file system has no locks (some NFS), a sweep cannot lock
	// either, and so removes nothing: only EWOULDBLOCK matters.
	if errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return nil, errors.Join(errTaken, f.Close())
	}
	// A sweep may have removed it between opening and locking.
	if _, err := os.Lstat(path); err != nil {
		return nil, errors.Join(errTaken, f.Close())
	}
	return f, nil
}

// sweep removes the folders that are not in use, as far as it may: another user's
// stay.
func sweep(parent, prefix string) {
	entries, _ := os.ReadDir(parent)
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		path := filepath.Join(parent, entry.Name())
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(path)
		}
		_ = f.Close()
	}
}
