package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// account is the operating system's user that PostgreSQL runs as.
type account struct {
	name       string
	uid, gid   int
	credential *syscall.Credential // nil: this process's own user
}

// serverAccount is this process's own user unless that is root: PostgreSQL refuses
// to run as root, so it is the first of these users that exists.
func serverAccount() (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{name: "uid " + strconv.Itoa(uid), uid: uid, gid: os.Getegid()}, nil
	}
	return firstAccount("postgres", "nobody")
}

func firstAccount(names ...string) (account, error) {
	var problems []error
	for _, name := range names {
		a, err := lookupAccount(name)
		if err == nil {
			return a, nil
		}
		problems = append(problems, err)
	}
	return account{}, fmt.Errorf("PostgreSQL refuses to run as root, and there is nobody else to run it as: %w", errors.Join(problems...))
}

func lookupAccount(name string) (account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return account{}, fmt.Errorf("groups of user %s: %w", name, err)
	}
	ids := make([]uint32, 0, len(groups)+2)
	for _, id := range append([]string{u.Uid, u.Gid}, groups...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		ids = append(ids, uint32(n))
	}
	return account{
		name: name, uid: int(ids[0]), gid: int(ids[1]),
		credential: &syscall.Credential{Uid: ids[0], Gid: ids[1], Groups: ids[2:]},
	}, nil
}

// own makes the account the owner of a folder.
func (a account) own(folder string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(folder, a.uid, a.gid)
}

// mustReach returns an error that names the first folder on the path to dir that
// the account cannot enter. It runs the program there to find out.
func (a account) mustReach(ctx context.Context, program, dir string) error {
	if a.credential == nil || a.enters(ctx, program, dir) == nil {
		return nil
	}
	if err := a.enters(ctx, program, "/"); err != nil {
		return fmt.Errorf("user %s, who runs PostgreSQL because root may not, cannot run %s: %w", a.name, program, err)
	}
	for _, step := range stepsTo(dir) {
		if err := a.enters(ctx, program, step); err != nil {
			return fmt.Errorf("user %s, who runs PostgreSQL because root may not, cannot enter %s (%w): "+
				"choose a data folder elsewhere, such as /var/lib/forgequeue, or let others pass with: chmod o+x %s",
				a.name, step, err, step)
		}
	}
	return nil
}

// enters tries it instead of reading permission bits: access lists, user
// namespaces and security modules count too. The child changes to dir after it has
// changed its user.
func (a account) enters(ctx context.Context, program, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := command(a.credential, program, "--version")
	cmd.Dir = dir
	err := run(ctx, cmd, syscall.SIGKILL)
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err // its path is the program's, even if the folder is to blame
	}
	return err
}

// stepsTo lists the folders from the root down to dir, dir included.
func stepsTo(dir string) []string {
	var steps []string
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		steps = append(steps, dir)
	}
	slices.Reverse(steps)
	return steps
}

// makeParents makes the missing folders down to dir. The account may pass through
// them, whatever the umask, but may not list them.
func (a account) makeParents(dir string) error {
	for _, step := range stepsTo(dir) {
		if exists(step) {
			continue
		}
		if err := os.Mkdir(step, 0o755); err != nil { //nolint:gosec // others pass through, see above
			return err
		}
		info, err := os.Stat(step)
		if err != nil {
			return err
		}
		if a.credential == nil {
			continue
		}
		if err := os.Chmod(step, info.Mode().Perm()|0o011); err != nil {
			return err
		}
	}
	return nil
}
