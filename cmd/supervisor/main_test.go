package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the parent that tests kill: this variable makes it
// play that part instead of running tests.
const partVar, dirVar = "SUPERVISOR_TEST_PART", "SUPERVISOR_TEST_DIR"

func TestMain(m *testing.M) {
	part := os.Getenv(partVar)
	if part == "" {
		code := m.Run()
		if initialised.dir != "" {
			_ = os.RemoveAll(initialised.dir)
		}
		os.Exit(code)
	}
	var err error
	switch part {
	case "serve":
		err = playServe(os.Getenv(dirVar))
	case "cycle":
		err = playCycle(os.Getenv(dirVar))
	default:
		err = fmt.Errorf("no part %q", part)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// announcement is what the parent writes for the test, as a line of JSON.
type announcement struct {
	Postgres, Redis int // pids
	URL             string
}

// playServe starts both servers, writes their pids and waits to be killed. It
// prints a line when it begins, so that it can be killed before that as well.
func playServe(dir string) error {
	fmt.Println("{}")
	ctx := context.Background()
	p, err := StartPostgres(ctx, PostgresOptions{DataDir: filepath.Join(dir, "pg"), Database: "app"})
	if err != nil {
		return err
	}
	r, err := StartRedis(ctx, RedisOptions{Dir: filepath.Join(dir, "redis")})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(announcement{p.Pid(), r.Pid(), p.URL("app")}); err != nil {
		return err
	}
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	return fmt.Errorf("nobody killed the parent: %w", err)
}

// playCycle starts and stops both servers, and fails if a goroutine stays.
func playCycle(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	before := runtime.NumGoroutine()
	p, err := StartPostgres(ctx, PostgresOptions{DataDir: filepath.Join(dir, "pg"), Database: "app"})
	if err != nil {
		return err
	}
	r, err := StartRedis(ctx, RedisOptions{})
	if err != nil {
		return err
	}
	if err := p.Stop(ctx); err != nil {
		return err
	}
	if err := r.Stop(ctx); err != nil {
		return err
	}
	// A goroutine ends a moment after it has closed Done.
	if !poll(func() bool { return runtime.NumGoroutine() <= before }) {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		return fmt.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
	}
	return nil
}

// play prepares the test binary for one of the parts.
func play(t *testing.T, part, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), partVar+"="+part, dirVar+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// patience bounds every wait of these tests, on a machine that is busy.
const patience = time.Minute

func poll(done func() bool) bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !poll(done) {
		t.Fatalf("never: %s", what)
	}
}

func ended(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("Done is not closed")
	}
}

// withinPatience is a context for what must happen even after the test's own.
func withinPatience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustSay checks that an error contains all of the texts.
func mustSay(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
}

// tempDir is t.TempDir, but open to the user that PostgreSQL runs as.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fqsup-")
	must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	must(t, os.Chmod(dir, 0o711))
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	return dir
}

func binaries(t *testing.T) PostgresBinaries {
	t.Helper()
	b, err := FindPostgres(t.Context())
	if err != nil {
		missing(t, err.Error())
	}
	return b
}

// initialised is a data folder that tests take copies of: initdb takes a second of a
// processor, and few tests are about it.
var initialised struct {
	once sync.Once
	dir  string
	err  error
}

// copied makes dataDir a copy of a data folder as initdb leaves it.
func copied(t *testing.T, dataDir string) {
	t.Helper()
	initialised.once.Do(func() {
		dir, err := os.MkdirTemp("", "fqsup-")
		if err == nil {
			initialised.dir, err = dir, os.Chmod(dir, 0o711)
		}
		if err == nil {
			_, err = prepare(context.Background(), PostgresOptions{DataDir: filepath.Join(dir, "pg"), Binaries: binaries(t)})
		}
		initialised.err = err
	})
	must(t, initialised.err)
	if output, err := exec.CommandContext(t.Context(), "cp", "-Rp", filepath.Join(initialised.dir, "pg"), dataDir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, output)
	}
}

// startPostgres starts a server that the test's end stops, if it still runs. The data
// folder is a copy where its parent is there, it is not, and its owner is the usual one.
func startPostgres(t *testing.T, opts PostgresOptions) *Postgres {
	t.Helper()
	opts.Binaries = binaries(t)
	if exists(filepath.Dir(opts.DataDir)) && !exists(opts.DataDir) && opts.User == "" {
		copied(t, opts.DataDir)
	}
	p, err := StartPostgres(t.Context(), opts)
	must(t, err)
	t.Cleanup(func() {
		if err := p.Stop(withinPatience(t)); err != nil {
			t.Error(err)
		}
	})
	return p
}

// missing skips where a server is not installed, and fails where CI demands it.
func missing(t *testing.T, what string) {
	t.Helper()
	for _, name := range []string{"CI", "FORGEQUEUE_REQUIRE_STORES"} {
		if yes, _ := strconv.ParseBool(os.Getenv(name)); yes {
			t.Fatal(what)
		}
	}
	t.Skip(what)
}

// psql runs a statement and returns what it prints.
func psql(t *testing.T, url, sql string) string {
	t.Helper()
	file := binaries(t).program("psql")
	if !executable(file) {
		missing(t, "no psql: "+file)
	}
	cmd := exec.CommandContext(t.Context(), file, "--no-psqlrc", "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", sql, url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("psql %s: %v\n%s", sql, err, out)
	}
	return strings.TrimSpace(string(out))
}

// processesIn lists the living processes that work in a folder or were started
// with its name as an argument. It needs Linux.
func processesIn(t *testing.T, dir string) map[int]string {
	t.Helper()
	found := map[int]string{}
	entries, err := os.ReadDir("/proc")
	must(t, err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.HasPrefix(cwd, dir) || strings.Contains(string(args), dir) {
			found[pid] = strings.ReplaceAll(string(args), "\x00", " ")
		}
	}
	return found
}

// processOf finds a process of a server by its title, such as "checkpointer".
func processOf(t *testing.T, dataDir, title string) int {
	t.Helper()
	var pid int
	eventually(t, "a process "+title, func() bool {
		for p, args := range processesIn(t, dataDir) {
			if strings.Contains(args, title) {
				pid = p
			}
		}
		return pid != 0
	})
	return pid
}

// freeze halts a process until thaw, at the latest until the test's end.
func freeze(t *testing.T, pid int) (thaw func()) {
	t.Helper()
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(thaw)
	return thaw
}

func needLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux")
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only as root does the server run as another user")
	}
}
