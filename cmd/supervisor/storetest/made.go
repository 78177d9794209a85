package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/cmd/supervisor/internal/scratch"
)

// copyMade copies a data folder that initdb has made to a new name: dozens of test processes need one, and
// initdb takes several times the CPU of a copy. The folder lies in the user's cache, one for each version of
// PostgreSQL, and the first process makes it. False: there is no copy, and nothing under that name.
func copyMade(ctx context.Context, to string) bool {
	made, err := made(ctx)
	if err == nil {
		err = copyFolder(ctx, made, to)
	}
	if err != nil {
		_ = os.RemoveAll(to) // what there is of it
	}
	return err == nil
}

// made is the data folder that is copied, of a server that was stopped in good order.
func made(ctx context.Context) (string, error) {
	binaries, err := supervisor.FindPostgres(ctx)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "forgequeue-test", fmt.Sprintf("postgres-%s-%d", binaries.Version, os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	data := filepath.Join(folder, "data")
	if _, err := os.Stat(data); err == nil {
		return data, nil
	}
	return data, makeData(ctx, data)
}

// makeData makes the folder elsewhere, where PostgreSQL's user may enter, and gives it its name when it is complete.
func makeData(ctx context.Context, data string) error {
	elsewhere, err := scratch.Make(os.TempDir(), "forgequeue-test-initdb-")
	if err != nil {
		return err
	}
	defer func() { _ = elsewhere.Remove() }()
	if os.Geteuid() == 0 {
		err = os.Chmod(elsewhere.Path, 0o711)
	}
	if err != nil {
		return err
	}
	first := filepath.Join(elsewhere.Path, "data")
	p, err := supervisor.StartPostgres(ctx, supervisor.PostgresOptions{DataDir: first})
	if err != nil {
		return err
	}
	if err := p.Stop(ctx); err != nil {
		return err
	}
	part := data + ".part"
	if err := errors.Join(os.RemoveAll(part), copyFolder(ctx, first, part)); err != nil {
		return err
	}
	return os.Rename(part, data)
}

// copyFolder keeps owners and modes, which PostgreSQL insists on.
func copyFolder(ctx context.Context, from, to string) error {
	return exec.CommandContext(ctx, "cp", "-a", from, to).Run()
}
