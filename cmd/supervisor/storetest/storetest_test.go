package storetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestPostgresIsSharedAndAnswers(t *testing.T) {
	t.Parallel()
	first, second := Postgres(t), Postgres(t)
	if first != second {
		t.Errorf("two servers: %s, %s", first, second)
	}
	if os.Getenv("DATABASE_URL") != "" {
		return
	}
	u, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port")))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestRedisIsSharedAndAnswers(t *testing.T) {
	t.Parallel()
	first, second := Redis(t), Redis(t)
	if first != second {
		t.Errorf("two servers: %s, %s", first, second)
	}
}

// recorder is a test that notes how it is ended.
type recorder struct {
	testing.TB
	end, text string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Fatal(args ...any)         { r.stop("fatal", fmt.Sprint(args...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.stop("fatal", fmt.Sprintf(f, a...)) }
func (r *recorder) Skipf(f string, a ...any)  { r.stop("skip", fmt.Sprintf(f, a...)) }

func (r *recorder) stop(end, text string) {
	r.end, r.text = end, text
	runtime.Goexit()
}

// record runs f as a test would.
func record(f func(testing.TB)) *recorder {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

func TestMissingStores(t *testing.T) {
	t.Parallel()
	missing := fmt.Errorf("postgres: %w", &supervisor.NotFoundError{Wanted: "PostgreSQL 15 or later"})
	for _, c := range []struct {
		err      error
		required bool
		end      string
	}{
		{missing, false, "skip"},
		{missing, true, "fatal"},
		{errors.New("broken"), false, "fatal"},
	} {
		s := &store{advice: "install it", err: c.err}
		r := record(func(tb testing.TB) { s.refuse(tb, c.required) })
		if r.end != c.end || !strings.Contains(r.text, "install it") || !strings.Contains(r.text, c.err.Error()) {
			t.Errorf("%v, required %v: %s %q", c.err, c.required, r.end, r.text)
		}
	}
}

func TestStoreNeedsMain(t *testing.T) {
	t.Parallel()
	s := &store{start: func(context.Context) (running, error) { return running{}, errors.New("started") }}
	r := record(func(tb testing.TB) { s.url(tb) })
	if r.end != "fatal" || !strings.Contains(r.text, "storetest.Main") {
		t.Errorf("%s %q", r.end, r.text)
	}
}

// Not parallel: the environment is the process's.
func TestRequired(t *testing.T) {
	t.Setenv("CI", "")
	t.Setenv("FORGEQUEUE_REQUIRE_STORES", "")
	if required() {
		t.Error("required by nobody")
	}
	t.Setenv("FORGEQUEUE_REQUIRE_STORES", "1")
	if !required() {
		t.Error("not required")
	}
	t.Setenv("FORGEQUEUE_REQUIRE_STORES", "")
	t.Setenv("CI", "true")
	if !required() {
		t.Error("not required in CI")
	}
	t.Setenv("DATABASE_URL", "postgres://elsewhere/x")
	t.Setenv("REDIS_URL", "redis://elsewhere")
	if Postgres(t) != "postgres://elsewhere/x" || Redis(t) != "redis://elsewhere" {
		t.Error("the environment's servers are not used")
	}
}
