package supervisor

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPostgresKeepsDataAcrossRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "made", "on", "the way")
	opts := PostgresOptions{DataDir: dir, Database: `odd "name"`, User: "owner", Settings: map[string]string{"max_connections": "33"}}

	p := startPostgres(t, opts)
	psql(t, p.URL(opts.Database), "CREATE TABLE kept AS SELECT 'kept' AS word")
	for setting, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "listen_addresses": "", "unix_socket_permissions": "0700",
		"max_connections": "33", "shared_buffers": "128MB", "server_encoding": "UTF8", "timezone": "UTC",
	} {
		if got := psql(t, p.URL("postgres"), "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	if got := psql(t, p.URL("postgres"), "SELECT datcollate FROM pg_database WHERE datname = current_database()"); got != "C" {
		t.Errorf("sorted by %q", got)
	}
	if got := psql(t, p.URL("postgres"), "SELECT current_user || rolsuper FROM pg_roles WHERE rolname = current_user"); got != "ownertrue" {
		t.Errorf("connected as %q", got)
	}
	must(t, p.Stop(withinPatience(t)))
	ended(t, p.Process)
	if p.Err() != nil || exists(filepath.Join(dir, "postmaster.pid")) {
		t.Errorf("not an orderly end: %v", p.Err())
	}
	must(t, p.Stop(withinPatience(t))) // stopping twice is harmless

	p = startPostgres(t, opts)
	if got := psql(t, p.URL(opts.Database), "SELECT word FROM kept"); got != "kept" {
		t.Errorf("after a restart: %q", got)
	}
	must(t, p.Stop(withinPatience(t)))

	// A name that is new to an old folder is made as well.
	opts.Database = "second"
	p = startPostgres(t, opts)
	if got := psql(t, p.URL("second"), "SELECT current_database()"); got != "second" {
		t.Errorf("database %q", got)
	}
}

func TestPostgresComesBackAfterKill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "pg")
	p := startPostgres(t, PostgresOptions{DataDir: dir, Database: "app"})
	psql(t, p.URL("app"), "CREATE TABLE kept AS SELECT 1 AS one")
	if p.Err() != nil {
		t.Errorf("running, and Err says %v", p.Err())
	}
	must(t, p.Kill())
	ended(t, p.Process)
	mustSay(t, p.Err(), "signal: killed")

	p = startPostgres(t, PostgresOptions{DataDir: dir, Database: "app"})
	if got := psql(t, p.URL("app"), "SELECT one FROM kept"); got != "1" {
		t.Errorf("after the kill: %q", got)
	}
}

// A backend that is slow to notice its postmaster's death keeps the folder for a while.
func TestPostgresOutwaitsBackendsOfAKilledServer(t *testing.T) {
	t.Parallel()
	needLinux(t)
	dir := filepath.Join(tempDir(t), "pg")
	p := startPostgres(t, PostgresOptions{DataDir: dir})
	thaw := freeze(t, processOf(t, dir, "checkpointer"))
	must(t, p.Kill())
	ended(t, p.Process)

	restarted := make(chan error, 1)
	go func() {
		again, err := StartPostgres(t.Context(), PostgresOptions{DataDir: dir})
		if err == nil {
			err = again.Stop(withinPatience(t))
		}
		restarted <- err
	}()
	eventually(t, "a start that meets the backend", func() bool {
		log, _ := os.ReadFile(dir + ".log")
		return strings.Contains(string(log), "pre-existing shared memory block")
	})
	thaw()
	must(t, <-restarted)
}

func TestPostgresRefusesAHeldFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "pg")
	p := startPostgres(t, PostgresOptions{DataDir: dir})
	_, err := StartPostgres(t.Context(), PostgresOptions{DataDir: dir})
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.Pid != p.Pid() || held.Dir != dir {
		t.Fatalf("got %v, want a HeldError of pid %d", err, p.Pid())
	}
	mustSay(t, err, "already running")
	psql(t, p.URL("postgres"), "SELECT 1") // and the holder is none the worse
}

func TestPostgresWaitsForAServerThatStops(t *testing.T) {
	t.Parallel()
	needLinux(t)
	dir := filepath.Join(tempDir(t), "pg")
	p := startPostgres(t, PostgresOptions{DataDir: dir})
	thaw := freeze(t, processOf(t, dir, "checkpointer"))
	stopped := make(chan error, 1)
	go func() { stopped <- p.Stop(withinPatience(t)) }()
	eventually(t, "stopping", func() bool {
		f, _ := readPidFile(dir)
		return f.status == "stopping"
	})

	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := mustBeFree(soon, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("did not wait: %v", err)
	}
	thaw()
	startPostgres(t, PostgresOptions{DataDir: dir})
	must(t, <-stopped)
}

func TestPostgresStopEscalates(t *testing.T) {
	t.Parallel()
	needLinux(t)
	dir := filepath.Join(tempDir(t), "pg")
	p, err := StartPostgres(t.Context(), PostgresOptions{DataDir: dir, Binaries: binaries(t)})
	must(t, err)
	freeze(t, processOf(t, dir, "checkpointer")) // so that no checkpoint will be written
	over, cancel := context.WithCancel(t.Context())
	cancel()
	err = p.Stop(over)
	mustSay(t, err, "did not stop in time", "quit")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not the context's error", err)
	}
	ended(t, p.Process)
	eventually(t, "nothing left", func() bool { return len(processesIn(t, dir)) == 0 })
}

func TestPostgresErrorCarriesTheLog(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	log := filepath.Join(dir, "own.log")
	must(t, os.WriteFile(log, []byte("of an earlier run\n"), 0o600))
	_, err := StartPostgres(t.Context(), PostgresOptions{
		DataDir: filepath.Join(dir, "pg"), LogFile: log, Binaries: binaries(t),
		Settings: map[string]string{"no_such_setting": "1"},
	})
	mustSay(t, err, "while starting", "exit status 1", `unrecognized configuration parameter "no_such_setting"`)
	if strings.Contains(err.Error(), "earlier run") {
		t.Errorf("the error quotes an earlier run: %v", err)
	}
	_, err = StartPostgres(t.Context(), PostgresOptions{DataDir: dir, Settings: map[string]string{"port": "1"}})
	mustSay(t, err, "port cannot be set")
	_, err = StartPostgres(t.Context(), PostgresOptions{})
	mustSay(t, err, "no DataDir")
}

func TestPostgresTellsOfAnUnknownUser(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "pg")
	must(t, startPostgres(t, PostgresOptions{DataDir: dir}).Stop(withinPatience(t)))
	_, err := StartPostgres(t.Context(), PostgresOptions{DataDir: dir, User: "stranger", Database: "app"})
	mustSay(t, err, `database "app"`, `role "stranger" does not exist`)
	if _, running := readPidFile(dir); running {
		t.Error("the server was left running")
	}
}

func TestPostgresSocketPaths(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dir       string
		elsewhere bool
	}{
		"too long for a socket": {strings.Repeat("long", 30), true},
		"divides a list":        {"a,b", true},
		"needs quoting":         {`a "b" %c+&d`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(tempDir(t), c.dir)
			p := startPostgres(t, PostgresOptions{DataDir: dir, Database: "app"})
			if got := psql(t, p.URL("app"), "SELECT current_database()"); got != "app" {
				t.Errorf("database %q", got)
			}
			info, err := os.Stat(p.sockets)
			must(t, err)
			if info.Mode().Perm() != 0o700 {
				t.Errorf("the socket's folder is open to others: %v", info.Mode())
			}
			must(t, p.Stop(withinPatience(t)))
			if elsewhere := p.sockets != dir; elsewhere != c.elsewhere || elsewhere && exists(p.sockets) {
				t.Errorf("the socket was in %s, which is there: %v", p.sockets, exists(p.sockets))
			}
		})
	}
}

func TestPostgresStartGivenUpInInitdb(t *testing.T) {
	t.Parallel()
	needLinux(t)
	dir := tempDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		poll(func() bool { return len(initFolders(dir)) > 0 && len(processesIn(t, dir)) > 0 })
		cancel()
	}()
	_, err := StartPostgres(ctx, PostgresOptions{DataDir: filepath.Join(dir, "pg"), Binaries: binaries(t)})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) > 0 || len(processesIn(t, dir)) > 0 {
		t.Errorf("left behind: %v, %v", entries, processesIn(t, dir))
	}
}

func TestPostgresStartGivenUpBeforeReady(t *testing.T) {
	t.Parallel()
	needLinux(t)
	dir := filepath.Join(tempDir(t), "pg")
	opts := PostgresOptions{DataDir: dir, Binaries: binaries(t)}
	p := startPostgres(t, opts)
	must(t, p.Stop(withinPatience(t)))
	// A server that recovers from an archive that never answers is never ready.
	must(t, os.WriteFile(filepath.Join(dir, "recovery.signal"), nil, 0o644))
	opts.Settings = map[string]string{"restore_command": "sleep 1000"}

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		poll(func() bool {
			return slices.ContainsFunc(slices.Collect(maps.Values(processesIn(t, dir))), func(args string) bool {
				return strings.Contains(args, "sleep 1000")
			})
		})
		cancel()
	}()
	_, err := StartPostgres(ctx, opts)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	eventually(t, "nothing left", func() bool { return len(processesIn(t, dir)) == 0 })
}

func TestPostgresProbesTheBinariesGiven(t *testing.T) {
	t.Parallel()
	b := binaries(t)
	got, err := chooseBinaries(t.Context(), PostgresBinaries{Dir: b.Dir}, "")
	if err != nil || got != b {
		t.Errorf("got %+v, %v; want %+v", got, err, b)
	}
	_, err = StartPostgres(t.Context(), PostgresOptions{DataDir: tempDir(t), Binaries: PostgresBinaries{Dir: "/nowhere"}})
	mustSay(t, err, "/nowhere", "no postgres")
}

func initFolders(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "*.init-*"))
	return found
}
