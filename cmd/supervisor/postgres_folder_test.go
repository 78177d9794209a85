package supervisor

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestFolderOfAnotherVersion(t *testing.T) {
	t.Parallel()
	b := binaries(t)
	dir := filepath.Join(tempDir(t), "pg")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("9\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600))
	_, err := StartPostgres(t.Context(), PostgresOptions{DataDir: dir, Binaries: b})
	mustSay(t, err, dir, "PostgreSQL 9", b.Version, "pg_upgrade", "another folder")
	if !exists(filepath.Join(dir, "precious")) {
		t.Error("the folder was touched")
	}

	must(t, os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("nine\n"), 0o600))
	_, err = StartPostgres(t.Context(), PostgresOptions{DataDir: dir, Binaries: b})
	mustSay(t, err, `"nine"`, "no version")
}

func TestFolderThatIsNotPostgres(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	must(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600))
	_, err := StartPostgres(t.Context(), PostgresOptions{DataDir: dir, Binaries: binaries(t)})
	mustSay(t, err, dir, "thesis.tex", "choose another folder")

	_, err = StartPostgres(t.Context(), PostgresOptions{DataDir: filepath.Join(dir, "thesis.tex"), Binaries: binaries(t)})
	mustSay(t, err, "thesis.tex", "not a directory")
}

// An empty folder is used, also through a link, and also one of root's.
func TestFolderThatIsEmpty(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	must(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	must(t, os.Symlink("empty", filepath.Join(dir, "link")))
	p := startPostgres(t, PostgresOptions{DataDir: filepath.Join(dir, "link")})
	if want := filepath.Join(dir, "empty"); p.dataDir != want {
		t.Errorf("runs on %s, want %s", p.dataDir, want)
	}
	if len(initFolders(dir)) > 0 {
		t.Errorf("left behind: %v", initFolders(dir))
	}
}

func TestFolderBelowAClosedOne(t *testing.T) {
	t.Parallel()
	needRoot(t)
	closed := filepath.Join(tempDir(t), "closed")
	must(t, os.MkdirAll(filepath.Join(closed, "deeper"), 0o755))
	must(t, os.Chmod(closed, 0o700))
	_, err := StartPostgres(t.Context(), PostgresOptions{DataDir: filepath.Join(closed, "deeper", "new", "pg"), Binaries: binaries(t)})
	mustSay(t, err, "cannot enter "+closed+" ", "permission denied", "choose a data folder elsewhere", "chmod o+x "+closed)
	if exists(filepath.Join(closed, "deeper", "new")) {
		t.Error("a folder was made before the check")
	}
}

func TestFolderOfSomebodyElse(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := filepath.Join(tempDir(t), "pg")
	p := startPostgres(t, PostgresOptions{DataDir: dir})
	must(t, p.Stop(withinPatience(t)))
	must(t, os.Chown(dir, 12345, -1))
	_, err := StartPostgres(t.Context(), PostgresOptions{DataDir: dir, Binaries: binaries(t)})
	mustSay(t, err, dir, "uid 12345", "chown -R")
}

func TestAccountForRoot(t *testing.T) {
	t.Parallel()
	a, err := firstAccount("no-such-user-here", "nobody")
	must(t, err)
	if a.name != "nobody" || a.uid == 0 || a.credential == nil || int(a.credential.Uid) != a.uid {
		t.Errorf("got %+v", a)
	}
	_, err = firstAccount("no-such-user-here")
	mustSay(t, err, "refuses to run as root", "no-such-user-here")
}

func TestParentsArePassable(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := tempDir(t)
	a, err := serverAccount()
	must(t, err)
	must(t, a.makeParents(filepath.Join(dir, "a", "b")))
	for _, made := range []string{"a", "a/b"} {
		info, err := os.Stat(filepath.Join(dir, made))
		must(t, err)
		if info.Mode().Perm()&0o011 != 0o011 {
			t.Errorf("%s is %v", made, info.Mode())
		}
	}
}

func TestPidFile(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	for text, want := range map[string]pidFile{
		"":          {},
		"half":      {},
		"12\n":      {pid: 12},
		"-12\n/d\n": {pid: 12},
		"7\n/d\n1700000000\n5432\n/s\n\n  1 2\nready   \n": {pid: 7, status: "ready"},
	} {
		must(t, os.WriteFile(filepath.Join(dir, "postmaster.pid"), []byte(text), 0o600))
		got, ok := readPidFile(dir)
		if got != want || ok != (want.pid != 0) {
			t.Errorf("%q: got %+v, %v", text, got, ok)
		}
	}
	// An old file, whose pid now belongs to another process, locks nothing.
	must(t, os.WriteFile(filepath.Join(dir, "postmaster.pid"), []byte(strconv.Itoa(os.Getpid())), 0o600))
	must(t, mustBeFree(t.Context(), dir))
}
