package store_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// The first host of the URL takes connections and says nothing: the second is asked.
func TestPulseAsksTheNextHost(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	given, err := pgx.ParseConfig(celltest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	password := ""
	if given.Password != "" {
		password = " password=" + given.Password
	}
	opened, err := store.Open(t.Context(), store.Options{
		URL: fmt.Sprintf("host=127.0.0.1,%s port=%s,%d user=%s%s dbname=%s sslmode=disable target_session_attrs=read-write",
			given.Host, port, given.Port, given.User, password, given.Database),
		MaxConns: 2, PoolWait: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	pulse := opened.NewPulse()
	defer pulse.Close(t.Context())
	for range 3 { // the first connects
		if err := pulse.Beat(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := pulse.Beat(t.Context(), time.Nanosecond); err == nil {
		t.Error("no time, and an answer")
	}
	if err := pulse.Beat(t.Context(), time.Minute); err != nil {
		t.Errorf("a beat after one that failed: %v", err)
	}
}

// A server without a free connection answers all the same: the pool has its own.
func TestPulseOfAServerWithoutAFreeConnection(t *testing.T) {
	t.Parallel()
	databaseURL := celltest.URL(t)
	direct := celltest.Connect(t, databaseURL)
	role := "pulse_" + strings.ToLower(rand.Text())
	if _, err := direct.Exec(t.Context(), `CREATE ROLE `+role+` LOGIN PASSWORD 'pulse' CONNECTION LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = direct.Exec(context.WithoutCancel(t.Context()), `DROP ROLE `+role) })
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "pulse")
	opened, err := store.Open(t.Context(), store.Options{URL: u.String(), MaxConns: 1, PoolWait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if other, err := pgx.Connect(t.Context(), u.String()); err == nil {
		_ = other.Close(t.Context())
		t.Fatal("there is another connection")
	}
	pulse := opened.NewPulse()
	defer pulse.Close(t.Context())
	if err := pulse.Beat(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
}
