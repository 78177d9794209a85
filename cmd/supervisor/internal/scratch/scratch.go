// Package scratch makes private folders that do not pile up: what a killed
// process left behind is removed by the next one that makes such a folder.
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

// Folder is a private folder. Its maker holds a lock on it, which the kernel
// takes away when the maker dies, however it dies: so a folder that can be
// locked is nobody's.
type Folder struct {
	Path string
	lock *os.File
}

// attempts bounds how often Make tries again after losing its new folder to
// another process's sweep, which takes microseconds of bad luck each time.
const attempts = 10

// Make removes what dead processes left below parent under the same prefix, and
// makes a new folder there, mode 0700.
func Make(parent, prefix string) (*Folder, error) {
	sweep(parent, prefix)
	for range attempts {
		path, err := os.MkdirTemp(parent, prefix)
		if err != nil {
			return nil, err
		}
		lock, err := hold(path)
		switch {
		case err == nil:
			return &Folder{Path: path, lock: lock}, nil
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

// Keep gives up the lock and leaves the folder. Its name must not begin with
// the prefix any more: rename it first.
func (f *Folder) Keep() {
	_ = f.lock.Close() // a folder that was only read: nothing to lose
}

// errTaken says that another process sweeps the folder away, or has.
var errTaken = errors.New("taken by a sweep")

// hold locks the folder.
func hold(path string) (*os.File, error) {
	// NOFOLLOW: the parent may be /tmp, where anybody can plant a link.
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
	// A sweep may have come and gone between opening and locking.
	if _, err := os.Lstat(path); err != nil {
		return nil, errors.Join(errTaken, f.Close())
	}
	return f, nil
}

// sweep removes the folders that nobody holds. It is a courtesy: what it cannot
// remove (another user's) it leaves.
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
