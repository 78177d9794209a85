//go:build unix

package up

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
)

// PostgreSQL is killed, and killed again while it starts again.
func TestPostgresKilledWhileItStartsAgain(t *testing.T) {
	t.Setenv("DATABASE_URL", "")           // it would name a server of others
	dir, err := os.MkdirTemp("", "fq-up-") // not a test's TempDir: PostgreSQL's user could not enter it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	s := &stores{broken: make(chan error, 2)}
	err = s.openPostgres(t.Context(), f, slog.New(slog.DiscardHandler))
	if _, missing := errors.AsType[*MissingPostgresError](err); missing && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	// What it has to replay makes its start longer.
	conn, err := pgx.Connect(t.Context(), s.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `CREATE TABLE kept AS SELECT n FROM generate_series(1, 200000) n`); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
	pid := 0
	for range maxFailures - 2 { // the first end, and two starts that fail
		pid = killNext(t, s, f.join("postgres"), pid)
	}
	for {
		conn, err := pgx.Connect(t.Context(), s.databaseURL)
		if err == nil {
			var n int
			err = conn.QueryRow(t.Context(), `SELECT count(*) FROM kept`).Scan(&n)
			_ = conn.Close(t.Context())
			if err == nil && n == 200000 {
				return
			}
		}
		select {
		case broken := <-s.broken:
			t.Fatalf("up has given up: %v", broken)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// killNext kills the postmaster that comes after the one given.
func killNext(t *testing.T, s *stores, dir string, last int) int {
	t.Helper()
	for {
		content, _ := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
		line, _, _ := strings.Cut(string(content), "\n")
		if pid, err := strconv.Atoi(line); err == nil && pid != last && syscall.Kill(pid, syscall.SIGKILL) == nil {
			return pid
		}
		select {
		case broken := <-s.broken:
			t.Fatalf("up has given up: %v", broken)
		case <-time.After(time.Millisecond):
		}
	}
}

// A store that cannot be started is tried a few times, and then up gives up.
func TestAStoreThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	no, tries := errors.New("no"), 0
	k := &keeper{name: "Redis", log: slog.New(slog.DiscardHandler), started: time.Now(), restart: func(context.Context) (*supervisor.Process, error) {
		tries++
		return nil, no
	}}
	_, err := k.again(t.Context(), errors.New("killed"))
	if !errors.Is(err, no) || !strings.Contains(err.Error(), "Redis does not stay up") || tries != maxFailures-1 {
		t.Errorf("%d tries: %v", tries, err)
	}
	// Being stopped ends the tries.
	ctx, stop := context.WithCancel(t.Context())
	k.failures, k.restart = 0, func(context.Context) (*supervisor.Process, error) {
		stop()
		return nil, no
	}
	if _, err := k.again(ctx, no); err == nil || k.failures != 1 {
		t.Errorf("%d failures: %v", k.failures, err)
	}
}
