package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5" //nolint:depguard // River is a PostgreSQL program, and this one looks at what the server counts

	"github.com/forgequeue/forgequeue/cmd/supervisor"
)

// machine is what both run on: one PostgreSQL server and one Redis, in a temporary
// folder, and the program under test.
type machine struct {
	dir      string
	postgres *supervisor.Postgres
	redis    *supervisor.Redis // nil where none is installed
	// program is forgequeue, bencher what loads it.
	program, bencher string
	databases        int
	// hatchet is nil where it is not compared.
	hatchet *hatchet
}

// stopTime is how long PostgreSQL may take to write everything.
const stopTime = time.Minute

// newMachine builds the programs: with an empty cache that takes minutes, which are no part of the budget.
func newMachine(ctx context.Context, o *options) (_ *machine, err error) {
	dir, err := os.MkdirTemp("", "fq-peers-")
	if err != nil {
		return nil, err
	}
	m := &machine{dir: dir}
	defer func() {
		if err != nil {
			_ = m.close(ctx)
		}
	}()
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL's own user passes through
		return nil, err
	}
	if err := m.build(ctx); err != nil {
		return nil, err
	}
	switch {
	case !o.part(partServers):
	case o.hatchet == "":
		fmt.Fprintln(os.Stderr, "without Hatchet: -hatchet names no clone of it")
	default:
		m.hatchet, err = buildHatchet(ctx, o.hatchet)
		if missing, ok := errors.AsType[*notACloneError](err); ok {
			fmt.Fprintln(os.Stderr, "without Hatchet:", missing)
			err = nil
		}
	}
	return m, err
}

// start starts PostgreSQL and Redis; close stops them.
func (m *machine) start(ctx context.Context) (err error) {
	dir := m.dir
	m.postgres, err = supervisor.StartPostgres(ctx, supervisor.PostgresOptions{
		DataDir: filepath.Join(dir, "postgres"),
		// Counting costs both the same, and nothing while it is off.
		Settings: map[string]string{"shared_preload_libraries": "pg_stat_statements"},
	})
	if err != nil {
		return err
	}
	if err := m.track(ctx, "none"); err != nil {
		return err
	}
	m.redis, err = supervisor.StartRedis(ctx, supervisor.RedisOptions{Dir: filepath.Join(dir, "redis")})
	if missing, ok := errors.AsType[*supervisor.NotFoundError](err); ok {
		fmt.Fprintln(os.Stderr, "without Redis:", missing)
		err = nil
	}
	return err
}

// build makes the programs from this tree, once.
func (m *machine) build(ctx context.Context) error {
	dir, err := root()
	if err != nil {
		return err
	}
	m.program, m.bencher = filepath.Join(m.dir, "forgequeue"), filepath.Join(m.dir, "forgequeue-bench")
	const stamp = "-X github.com/forgequeue/forgequeue/cmd/bench.builtFrom="
	command := exec.CommandContext(ctx, "go", "build", "-ldflags", stamp+commit(ctx), "-o", m.dir+"/", "./cmd/forgequeue", "./cmd/forgequeue/forgequeue-bench")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"))
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("the programs: %w\n%s", err, out)
	}
	return nil
}

// commit names the tree; with a plus where it holds what is not committed.
func commit(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "-c", "safe.directory=*", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changes, _ := exec.CommandContext(ctx, "git", "-c", "safe.directory=*", "status", "--porcelain").Output()
	name := strings.TrimSpace(string(head))
	if len(changes) > 0 {
		name += "+changes"
	}
	return name
}

// database makes an empty one and gives its URL.
func (m *machine) database(ctx context.Context, prefix string) (string, error) {
	m.databases++
	name := fmt.Sprintf("%s_%d", prefix, m.databases)
	return m.postgres.URL(name), m.ask(ctx, m.postgres.URL("postgres"), "CREATE DATABASE "+name, nil)
}

// ask runs one statement; a result goes to into, where that is not nil.
func (m *machine) ask(ctx context.Context, url, sql string, into any) error {
	connection, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	if into == nil {
		_, err = connection.Exec(ctx, sql)
		return err
	}
	return connection.QueryRow(ctx, sql).Scan(into)
}

func (m *machine) redisURL() string {
	if m.redis == nil {
		return ""
	}
	return m.redis.URL()
}

func (m *machine) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	var errs []error
	if m.redis != nil {
		errs = append(errs, m.redis.Stop(ctx))
	}
	if m.postgres != nil {
		errs = append(errs, m.postgres.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(m.dir))...)
}
