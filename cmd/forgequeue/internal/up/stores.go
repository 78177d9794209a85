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

	"github.com/forgequeue/forgequeue/shared/supervisor"
)

// stores are the PostgreSQL and the Redis that the services stand on: given by
// the environment, or children of this process.
type stores struct {
	databaseURL string
	redisURL    string
	// redisMode is url, child or in_process.
	redisMode string
	// databaseGiven: by DATABASE_URL, and not started here.
	databaseGiven bool
	// databaseFrom says where PostgreSQL comes from, for people.
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

// openStores goes down the fallback order of both stores.
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
	// Looked for first, so that a machine without it gets the screen that helps
	// and not a half-made folder.
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

// openInProcessRedis is for a machine without Redis: good enough to look around,
// and said so. Its keys only expire when its clock is moved.
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

const (
	// A child that ends this often within the window is not going to stay up.
	maxRestarts   = 5
	restartWindow = time.Minute
	restartTime   = time.Minute
)

// keepUp restarts a child that ends by itself, and stops it at the end. Its URL
// stays: the socket lies in its folder.
func (s *stores) keepUp(ctx context.Context, name string, log *slog.Logger, child *supervisor.Process, restart func(context.Context) (*supervisor.Process, error)) {
	ctx = context.WithoutCancel(ctx) // the stop, not the signal to stop, ends a child
	stopping, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var ends []time.Time
		for {
			select {
			case <-stopping:
				return
			case <-child.Done():
			}
			log.Error("a store has ended and is started again", "store", name, "error", child.Err())
			ends = append(ends, time.Now())
			if len(ends) >= maxRestarts && time.Since(ends[len(ends)-maxRestarts]) < restartWindow {
				s.broken <- fmt.Errorf("%s does not stay up: %w", name, child.Err())
				return
			}
			again, err := restartUnless(ctx, stopping, restart)
			if err != nil {
				s.broken <- fmt.Errorf("%s cannot be started again: %w", name, err)
				return
			}
			child = again
		}
	}()
	s.stops = append(s.stops, func(ctx context.Context) error {
		close(stopping)
		<-done
		return child.Stop(ctx)
	})
}

// restartUnless gives the start up when the whole is being stopped.
func restartUnless(ctx context.Context, stopping <-chan struct{}, restart func(context.Context) (*supervisor.Process, error)) (*supervisor.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	go func() {
		select {
		case <-stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return restart(ctx)
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

// ownDatabase and ownRedis are the URLs of what was started here, which hold no
// password of anybody's.
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

// shownDatabase is the URL without its password, for a screen.
func (s *stores) shownDatabase() string {
	u, err := url.Parse(s.databaseURL)
	if err != nil {
		return "given"
	}
	return u.Redacted()
}

// MissingPostgresError is the screen for a machine without PostgreSQL.
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

// logFile opens this run's log and keeps the one before.
func (f *folder) logFile() (*os.File, error) {
	name := f.join("forgequeue.log")
	_ = os.Rename(name, filepath.Join(f.path, "forgequeue.log.1")) // there is none at the first start
	return os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}
