package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/forgequeue/forgequeue/cmd/supervisor/internal/scratch"
)

// resolve makes a path absolute and free of links, as far as it exists: the
// folder is renamed into place, and a link is not a place.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	missing := ""
	for !exists(path) {
		missing = filepath.Join(filepath.Base(path), missing)
		path = filepath.Dir(path)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	return filepath.Join(path, missing), nil
}

// deepest is the last folder on the way to path that exists.
func deepest(path string) string {
	for !exists(path) {
		path = filepath.Dir(path)
	}
	return path
}

// folderVersion is the major version of a data folder, 0 when it is not one.
func folderVersion(dataDir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s/PG_VERSION says %q, which is no version: choose another folder", dataDir, strings.TrimSpace(string(text)))
	}
	return major, nil
}

// prepareFolder leaves a data folder of the right version and owner that no server
// uses.
func (s *postgresStart) prepareFolder(ctx context.Context) error {
	fresh, err := isFresh(s.opts.DataDir)
	if err != nil {
		return err
	}
	if err := s.account.mustReach(ctx, s.opts.Binaries.program("postgres"), deepest(filepath.Dir(s.opts.DataDir))); err != nil {
		return err
	}
	if fresh {
		if err := s.initialise(ctx); err != nil {
			return fmt.Errorf("initialising %s: %w", s.opts.DataDir, err)
		}
	}
	if err := s.mustFit(); err != nil {
		return err
	}
	return mustBeFree(ctx, s.opts.DataDir)
}

// isFresh reports whether dataDir is missing or empty. Anything else must be a
// data folder.
func isFresh(dataDir string) (bool, error) {
	entries, err := os.ReadDir(dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil || len(entries) == 0 {
		return err == nil, err
	}
	for _, entry := range entries {
		if entry.Name() == "PG_VERSION" {
			return false, nil
		}
	}
	return false, fmt.Errorf("%s is neither empty nor a PostgreSQL data folder (it holds %s): choose another folder, "+
		"such as %s", dataDir, entries[0].Name(), filepath.Join(dataDir, "postgres"))
}

// mustFit returns an error unless the data folder is of the server's major version
// and belongs to the server's user.
func (s *postgresStart) mustFit() error {
	dir, binaries := s.opts.DataDir, s.opts.Binaries
	major, err := folderVersion(dir)
	if err != nil {
		return err
	}
	if major != binaries.Major {
		return fmt.Errorf("%s was made by PostgreSQL %d, and the server in %s is %s: install PostgreSQL %d, "+
			"or move the data over with pg_upgrade, or choose another folder", dir, major, binaries.Dir, binaries.Version, major)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != s.account.uid {
		owner := stat.Uid
		return fmt.Errorf("%s belongs to uid %d, and PostgreSQL would run as %s (uid %d): run this as that owner, "+
			"or choose another folder, or give it away with: chown -R %s %s",
			dir, owner, s.account.name, s.account.uid, strconv.Itoa(s.account.uid), dir)
	}
	return nil
}

// initialise makes the data folder under another name beside it and renames it
// when it is complete: an interrupted start leaves no incomplete data folder. The
// next start removes the rest.
func (s *postgresStart) initialise(ctx context.Context) error {
	parent := filepath.Dir(s.opts.DataDir)
	if err := s.account.makeParents(parent); err != nil {
		return err
	}
	folder, err := scratch.Make(parent, filepath.Base(s.opts.DataDir)+".init-")
	if err != nil {
		return err
	}
	err = s.account.own(folder.Path)
	if err == nil {
		err = s.initdb(ctx, folder.Path)
	}
	if err == nil {
		err = intoPlace(folder.Path, s.opts.DataDir)
	}
	if err != nil {
		return errors.Join(err, folder.Remove())
	}
	folder.Keep()
	return nil
}

func (s *postgresStart) initdb(ctx context.Context, dir string) error {
	// SIGTERM when this process dies: initdb then removes what it has made. The
	// servers that it runs end with it, because their input ends.
	err := run(ctx, command(s.account.credential, s.opts.Binaries.program("initdb"),
		"--pgdata="+dir,
		"--username="+s.opts.User,
		// C compares bytes: the fastest order, and no update of the system's
		// locales can corrupt an index.
		"--encoding=UTF8", "--locale=C",
		// Access to the socket's folder is access to the server, and there is
		// no other way.
		"--auth-local=trust", "--auth-host=reject",
		"--no-instructions"), syscall.SIGTERM)
	if err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	return nil
}

// intoPlace renames a folder to a name that is free or an empty folder's, and
// makes the new name durable.
func intoPlace(from, to string) error {
	// Not os.Rename, which refuses every folder as a target, even an empty one.
	err := syscall.Rename(from, to)
	switch {
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%s is a mount point: choose a folder below it, such as %s", to, filepath.Join(to, "postgres"))
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("%s was made by somebody else meanwhile: start again", to)
	case err != nil:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	parent, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}
