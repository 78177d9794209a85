// Package storetest provides tests with a real PostgreSQL and a real Redis. Every
// package that uses it has this TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/cmd/supervisor/internal/scratch"
)

const (
	// Bounds against a hang: initdb and a last checkpoint are slow on a slow machine.
	startTimeout = 5 * time.Minute
	stopTimeout  = 2 * time.Minute
)

// Postgres returns the URL of the database "postgres" on a server to test on:
// DATABASE_URL when that is set, or else a server that this test process starts
// once, from installed binaries. All tests of the process share it: each makes
// databases of its own.
//
// Where PostgreSQL is not installed the test is skipped, unless CI=true or
// FORGEQUEUE_REQUIRE_STORES=1 is set: then it fails.
func Postgres(tb testing.TB) (url string) {
	tb.Helper()
	if url := os.Getenv("DATABASE_URL"); url != "" {
		return url
	}
	return postgres.url(tb)
}

// Redis returns the URL of a server to test on: REDIS_URL when that is set, or
// else a server of this test process. It is shared as Postgres is, and missing
// it has the same effect: each test puts a prefix of its own before its keys.
func Redis(tb testing.TB) (url string) {
	tb.Helper()
	if url := os.Getenv("REDIS_URL"); url != "" {
		return url
	}
	return redis.url(tb)
}

// Main runs the tests, stops what was started for them and returns the exit
// code. Servers also end when the process is killed or the tests time out; the
// folder they leave in that case goes with the next run's start.
func Main(m *testing.M) int {
	postgres.enable()
	redis.enable()
	code := m.Run()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for _, end := range append(ends, postgres.stop, redis.stop) {
		if err := end(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "storetest:", err)
			code = max(code, 1)
		}
	}
	return code
}

// OnEnd has Main call end after the tests, before it stops the servers.
func OnEnd(end func(context.Context) error) {
	endsMutex.Lock()
	defer endsMutex.Unlock()
	ends = append(ends, end)
}

// RunEnv is set by the program teststores for the tests that it runs: the servers of DATABASE_URL and
// REDIS_URL end with the run.
const RunEnv = "FORGEQUEUE_TEST_RUN"

// EndsWithTests says whether the PostgreSQL server at url, which Postgres has returned, is for tests alone, so
// that databases may be left there.
func EndsWithTests(url string) bool {
	return url != os.Getenv("DATABASE_URL") || os.Getenv(RunEnv) != ""
}

// The process's servers. Tests have no other place to hand them on in.
var (
	postgres = &store{
		start: startPostgres,
		advice: "install PostgreSQL 15 or later (Debian: apt install postgresql; macOS: brew install postgresql@17), " +
			"or set DATABASE_URL",
	}
	redis = &store{
		start: startRedis,
		advice: "install Valkey or Redis 7 or later (Debian: apt install redis-server; macOS: brew install valkey), " +
			"or set REDIS_URL",
	}
)

var (
	endsMutex sync.Mutex
	ends      []func(context.Context) error
)

// running is what a store is once started.
type running struct {
	url  string
	stop func(context.Context) error
}

// store is started by the first test that asks for it.
type store struct {
	start  func(context.Context) (running, error)
	advice string

	mu      sync.Mutex
	enabled bool // by Main, which will stop it
	tried   bool
	running running
	err     error
}

func (s *store) enable() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enabled = true
}

func (s *store) url(tb testing.TB) string {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.enabled {
		tb.Fatal("storetest: no TestMain in this package calls storetest.Main, so nothing would stop the server")
	}
	if !s.tried {
		// Not the test's own context: the other tests get this outcome too.
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		s.running, s.err = s.start(ctx)
		s.tried = true
	}
	if s.err != nil {
		s.refuse(tb, required())
	}
	return s.running.url
}

// refuse ends a test that cannot have its store.
func (s *store) refuse(tb testing.TB, required bool) {
	tb.Helper()
	if _, missing := errors.AsType[*supervisor.NotFoundError](s.err); missing && !required {
		tb.Skipf("storetest: %s\n%v", s.advice, s.err)
	}
	tb.Fatalf("storetest: %v\n%s", s.err, s.advice)
}

// required says whether a machine without stores is a mistake.
func required() bool {
	for _, name := range []string{"CI", "FORGEQUEUE_REQUIRE_STORES"} {
		if yes, _ := strconv.ParseBool(os.Getenv(name)); yes {
			return true
		}
	}
	return false
}

func (s *store) stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enabled = false
	if s.running.stop == nil {
		return nil
	}
	return s.running.stop(ctx)
}

// Servers are a PostgreSQL and a Redis for a whole run of tests.
type Servers struct{ postgres, redis running }

// Start starts servers as test processes start theirs. A server whose variable, DATABASE_URL or REDIS_URL, is
// set is not started.
func Start(ctx context.Context) (*Servers, error) {
	s := &Servers{postgres: running{url: os.Getenv("DATABASE_URL")}, redis: running{url: os.Getenv("REDIS_URL")}}
	var err error
	if s.postgres.url == "" {
		s.postgres, err = startPostgres(ctx)
	}
	if err == nil && s.redis.url == "" {
		s.redis, err = startRedis(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	return s, nil
}

// Environ returns what the tests need in their environment.
func (s *Servers) Environ() []string {
	environ := []string{"DATABASE_URL=" + s.postgres.url, "REDIS_URL=" + s.redis.url}
	if s.postgres.stop != nil {
		environ = append(environ, RunEnv+"=1")
	}
	return environ
}

// Stop stops what Start has started.
func (s *Servers) Stop(ctx context.Context) error {
	var errs []error
	for _, server := range []running{s.postgres, s.redis} {
		if server.stop != nil {
			errs = append(errs, server.stop(ctx))
		}
	}
	return errors.Join(errs...)
}

func startPostgres(ctx context.Context) (running, error) {
	folder, err := scratch.Make(os.TempDir(), "forgequeue-test-postgres-")
	if err != nil {
		return running{}, err
	}
	// As root, PostgreSQL runs as another user, who has to pass through.
	if os.Geteuid() == 0 {
		err = os.Chmod(folder.Path, 0o711)
	}
	var p *supervisor.Postgres
	if err == nil {
		p, err = startIn(ctx, filepath.Join(folder.Path, "data"))
	}
	if err != nil {
		return running{}, errors.Join(err, folder.Remove())
	}
	return running{url: p.URL("postgres"), stop: func(ctx context.Context) error {
		return errors.Join(p.Stop(ctx), folder.Remove())
	}}, nil
}

// startIn starts a server on a copy of a data folder that was made once, or on a new one.
func startIn(ctx context.Context, dataDir string) (*supervisor.Postgres, error) {
	options := supervisor.PostgresOptions{
		DataDir: dataDir,
		Settings: map[string]string{
			// Several cores of several test processes at once have their pools here.
			"max_connections": "1000",
			// Core asks for this in its own sessions. Sessions of tests compiled statements for seconds, whose
			// cost was an estimate or that of a disabled scan.
			"jit": "off",
		},
	}
	if copyMade(ctx, dataDir) {
		p, err := supervisor.StartPostgres(ctx, options)
		if err == nil {
			return p, nil
		}
		if err := os.RemoveAll(dataDir); err != nil {
			return nil, err
		}
	}
	return supervisor.StartPostgres(ctx, options)
}

func startRedis(ctx context.Context) (running, error) {
	r, err := supervisor.StartRedis(ctx, supervisor.RedisOptions{})
	if err != nil {
		return running{}, err
	}
	return running{url: r.URL(), stop: r.Stop}, nil
}
