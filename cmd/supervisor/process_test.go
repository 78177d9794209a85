package supervisor

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

func TestKillOfTheParentLeavesNothing(t *testing.T) {
	t.Parallel()
	needLinux(t)
	binaries(t)
	redisBinary(t)
	dir := tempDir(t)
	parent := play(t, "serve", dir)
	in, err := parent.StdinPipe()
	must(t, err)
	defer in.Close()
	out, err := parent.StdoutPipe()
	must(t, err)
	must(t, parent.Start())
	lines := json.NewDecoder(bufio.NewReader(out))
	var said announcement
	for said.Redis == 0 {
		must(t, lines.Decode(&said))
	}
	psql(t, said.URL, "CREATE TABLE kept AS SELECT 1 AS one")

	must(t, parent.Process.Kill())
	_ = parent.Wait()
	// Both, with every backend, in a folder that has no other users.
	eventually(t, "all servers gone", func() bool { return len(processesIn(t, dir)) == 0 })
	for _, pid := range []int{said.Postgres, said.Redis} {
		if processName(pid) != "" {
			t.Errorf("pid %d (%s) lives", pid, processName(pid))
		}
	}

	p := startPostgres(t, PostgresOptions{DataDir: filepath.Join(dir, "pg"), Database: "app"})
	if got := psql(t, p.URL("app"), "SELECT one FROM kept"); got != "1" {
		t.Errorf("after the kill: %q", got)
	}
}

func TestKillOfTheParentInInitdb(t *testing.T) {
	t.Parallel()
	needLinux(t)
	binaries(t)
	dir := killedInInitdb(t)
	eventually(t, "initdb gone", func() bool { return len(processesIn(t, dir)) == 0 })

	p, err := StartPostgres(t.Context(), PostgresOptions{DataDir: filepath.Join(dir, "pg"), Binaries: binaries(t)})
	must(t, err)
	defer func() { must(t, p.Stop(withinPatience(t))) }()
	if left := initFolders(dir); len(left) > 0 {
		t.Errorf("not swept: %v", left)
	}
}

// killedInInitdb returns a folder whose parent was killed while initdb was at work
// in it. A quick initdb may be done before the kill; then it is tried again.
func killedInInitdb(t *testing.T) string {
	t.Helper()
	for range 10 {
		dir := tempDir(t)
		parent := play(t, "serve", dir)
		must(t, parent.Start())
		eventually(t, "an initdb at work", func() bool {
			made, _ := filepath.Glob(filepath.Join(dir, "*.init-*", "PG_VERSION"))
			return len(made) > 0 || exists(filepath.Join(dir, "pg"))
		})
		must(t, parent.Process.Kill())
		_ = parent.Wait()
		if !exists(filepath.Join(dir, "pg")) {
			return dir
		}
		eventually(t, "the server gone", func() bool { return len(processesIn(t, dir)) == 0 })
	}
	t.Fatal("initdb was done before the kill, ten times")
	return ""
}

func TestServerHasItsOwnProcessGroup(t *testing.T) {
	t.Parallel()
	r := startRedis(t, RedisOptions{})
	group, err := syscall.Getpgid(r.Pid())
	must(t, err)
	if group != r.Pid() {
		t.Errorf("group %d, pid %d: Ctrl-C in a terminal would reach it", group, r.Pid())
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	t.Parallel()
	binaries(t)
	redisBinary(t)
	must(t, play(t, "cycle", tempDir(t)).Run())
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	got := environment([]string{"PATH=/bin", "PGPORT=1", "PGDATA=/x", "LANG=de_DE", "LC_MESSAGES=de_DE", "HOME=/h"})
	if want := []string{"LC_ALL=C", "PATH=/bin", "HOME=/h"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProcessName(t *testing.T) {
	t.Parallel()
	if got := processName(os.Getpid()); got == "" {
		t.Error("we have no name")
	}
	parent := play(t, "no such part", "")
	parent.Stderr = nil
	must(t, parent.Start())
	if runtime.GOOS == "linux" { // a zombie until Wait
		eventually(t, "a zombie has no name", func() bool { return processName(parent.Process.Pid) == "" })
	}
	_ = parent.Wait()
	if got := processName(parent.Process.Pid); got != "" {
		t.Errorf("a dead process is %q", got)
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	var text []byte
	for i := range 3000 {
		text = append(text, byte('a'+i%26), '\n')
	}
	if got := lastLines(text); len(got) != 2*tailLines-1 || got[len(got)-1] != text[len(text)-2] {
		t.Errorf("got %q", got)
	}
	if got := quoteLog(lastLines(nil)); got != "; it logged nothing" {
		t.Errorf("got %q", got)
	}
}
