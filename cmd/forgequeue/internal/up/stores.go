//go:build unix

package up

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
)

// stores are the PostgreSQL and the Redis of the services: those of the environment, or children of this process.
type stores struct {
	databaseURL string
	redisURL    string
	// redisMode is url, child or in_process.
	redisMode string
	// databaseGiven: by DATABASE_URL, and not started here.
	databaseGiven bool
	// databaseFrom says where PostgreSQL comes from, for the user.
	databaseFrom string

	stops []func(context.Context) error
	// broken gets the error of a child that does not stay up.
	broken chan error
}

// Modes of Redis.
const (
	redisGiven     = "url"
	redisChild     = "child"
	redisInProcess = "in_process"
)

const database = "forgequeue"

// openStores opens both stores, each by its fallback order.
func openStores(ctx context.Context, f *folder, log *slog.Logger) (*stores, error) {
	s := &stores{broken: make(chan error, 2)}
	if err := s.openPostgres(ctx, f, log); err != nil {
		return nil, err
	}
	if err := s.openRedis(ctx, f, log); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

func (s *stores) openPostgres(ctx context.Context, f *folder, log *slog.Logger) error {
	if given := os.Getenv("DATABASE_URL"); given != "" {
		s.databaseURL, s.databaseFrom, s.databaseGiven = given, "given by DATABASE_URL", true
		return nil
	}
	// First of all, so that a machine without PostgreSQL gets the text with advice
	// and no incomplete folder.
	if _, err := supervisor.FindPostgres(ctx); err != nil {
		if missing, ok := errors.AsType[*supervisor.NotFoundError](err); ok {
			return &MissingPostgresError{Looked: missing.Looked}
		}
		return err
	}
	dir := f.join("postgres")
	start := func(ctx context.Context) (*supervisor.Postgres, error) {
		return supervisor.StartPostgres(ctx, supervisor.PostgresOptions{
			DataDir: dir, Database: database, LogFile: f.join("postgres.log"),
		})
	}
	first, err := start(ctx)
	if err != nil {
		return err
	}
	s.databaseURL, s.databaseFrom = first.URL(database), "started here, in "+dir
	s.keepUp(ctx, "PostgreSQL", log, first.Process, func(ctx context.Context) (*supervisor.Process, error) {
		again, err := start(ctx)
		if err != nil {
			return nil, err
		}
		return again.Process, nil
	})
	return nil
}

func (s *stores) openRedis(ctx context.Context, f *folder, log *slog.Logger) error {
	if given := os.Getenv("REDIS_URL"); given != "" {
		s.redisURL, s.redisMode = given, redisGiven
		return nil
	}
	dir := f.join("redis")
	start := func(ctx context.Context) (*supervisor.Redis, error) {
		return supervisor.StartRedis(ctx, supervisor.RedisOptions{Dir: dir, LogFile: f.join("redis.log")})
	}
	first, err := start(ctx)
	if _, ok := errors.AsType[*supervisor.NotFoundError](err); ok {
		return s.openInProcessRedis()
	}
	if err != nil {
		return err
	}
	s.redisURL, s.redisMode = first.URL(), redisChild
	s.keepUp(ctx, "Redis", log, first.Process, func(ctx context.Context) (*supervisor.Process, error) {
		again, err := start(ctx)
		if err != nil {
			return nil, err
		}
		return again.Process, nil
	})
	return nil
}

// openInProcessRedis is for a machine without Redis: enough for a trial, and the output says so. miniredis expires
// keys only when its clock is moved.
func (s *stores) openInProcessRedis() error {
	server, err := miniredis.Run()
	if err != nil {
		return fmt.Errorf("the Redis in this process cannot start: %w", err)
	}
	stopped := make(chan struct{})
	go func() {
		const tick = 100 * time.Millisecond
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-ticker.C:
				server.FastForward(tick)
			}
		}
	}()
	s.redisURL, s.redisMode = "redis://"+server.Addr()+"/0", redisInProcess
	s.stops = append(s.stops, func(context.Context) error {
		close(stopped)
		server.Close()
		return nil
	})
	return nil
}

// stop ends what was started, the last first.
func (s *stores) stop(ctx context.Context) error {
	var failures []error
	for _, v := range slices.Backward(s.stops) {
		failures = append(failures, v(ctx))
	}
	s.stops = nil
	return errors.Join(failures...)
}

// ownDatabase and ownRedis are the URLs of stores that were started here, which contain no password.
func (s *stores) ownDatabase() string {
	if s.databaseGiven {
		return ""
	}
	return s.databaseURL
}

func (s *stores) ownRedis() string {
	if s.redisMode == redisGiven {
		return ""
	}
	return s.redisURL
}

// shownDatabase is the URL without its password.
func (s *stores) shownDatabase() string {
	u, err := url.Parse(s.databaseURL)
	if err != nil {
		return "given"
	}
	return u.Redacted()
}

// MissingPostgresError is the text with advice for a machine without PostgreSQL.
type MissingPostgresError struct{ Looked []supervisor.Place }

func (e *MissingPostgresError) Error() string {
	var b strings.Builder
	b.WriteString("PostgreSQL 15 or newer was not found on this machine.\n\nLooked for:\n")
	for _, place := range e.Looked {
		fmt.Fprintf(&b, "  %-45s %s\n", place.Where, place.Found)
	}
	b.WriteString(`
Four ways on:
  1. Debian, Ubuntu:      apt-get install postgresql redis-server
  2. Fedora, RHEL:        dnf install postgresql-server valkey
  3. macOS:               brew install postgresql@17 redis
  4. A server you have:   DATABASE_URL=postgres://user:password@host:5432/database forgequeue up
Then run the same command again. Redis is optional here: without it one runs in the process.`)
	return b.String()
}

// logFile opens this run's log and keeps that of the run before.
func (f *folder) logFile() (*os.File, error) {
	name := f.join("forgequeue.log")
	_ = os.Rename(name, filepath.Join(f.path, "forgequeue.log.1")) // there is none at the first start
	return os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}
