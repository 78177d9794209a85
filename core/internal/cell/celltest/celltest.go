// Package celltest gives each test a database of its own, cloned from one that
// is migrated once for the test process, on a real PostgreSQL.
package celltest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// template is the migrated database of which the others are copies.
type template struct {
	once sync.Once
	name string
	err  error
	// copying: PostgreSQL refuses to copy a database that another session uses, another copy
	// included.
	copying sync.Mutex
}

//nolint:gochecknoglobals // one for the process is the point of it
var migrated template

// URL gives the URL of a new, migrated database that is dropped at the end of the test.
func URL(tb testing.TB) string {
	tb.Helper()
	if coordinator := os.Getenv(citusEnv); coordinator != "" {
		return distributed(tb, coordinator)
	}
	server := storetest.Postgres(tb)
	ctx := context.WithoutCancel(tb.Context())
	migrated.once.Do(func() { migrated.name, migrated.err = makeTemplate(ctx, server) })
	if migrated.err != nil {
		tb.Fatalf("celltest: template: %v", migrated.err)
	}
	migrated.copying.Lock()
	defer migrated.copying.Unlock()
	return create(tb, server, "TEMPLATE "+migrated.name)
}

// EmptyURL gives the URL of a new database without a schema.
func EmptyURL(tb testing.TB) string {
	tb.Helper()
	return create(tb, storetest.Postgres(tb), "ENCODING 'UTF8' TEMPLATE template0")
}

// Clone gives the URL of a copy of a database, as it is now. Nobody may be connected to it.
func Clone(tb testing.TB, databaseURL string) string {
	tb.Helper()
	if os.Getenv(citusEnv) != "" {
		tb.Skip("a distributed schema is not copied with its database")
	}
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	server, name := storetest.Postgres(tb), strings.TrimPrefix(u.Path, "/")
	Eventually(tb, "the sessions to have ended", func() bool {
		conn := Connect(tb, server)
		defer func() { _ = conn.Close(context.WithoutCancel(tb.Context())) }()
		var sessions int
		return conn.QueryRow(tb.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = $1`, name).Scan(&sessions) == nil && sessions == 0
	})
	return create(tb, server, "TEMPLATE "+name)
}

func create(tb testing.TB, server, how string) string {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	name := unique("t")
	if err := execute(ctx, server, "CREATE DATABASE "+name+" "+how); err != nil {
		tb.Fatalf("celltest: create: %v", err)
	}
	tb.Cleanup(func() {
		if err := execute(ctx, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("celltest: drop: %v", err)
		}
	})
	return withDatabase(server, name)
}

// Open gives a store on a new, migrated database.
func Open(tb testing.TB) *cell.Cell {
	tb.Helper()
	return OpenURL(tb, URL(tb))
}

// OpenURL gives a store on a given database, closed at the end of the test.
func OpenURL(tb testing.TB, databaseURL string) *cell.Cell {
	tb.Helper()
	store, err := cell.Open(tb.Context(), cell.Options{Options: store.Options{URL: databaseURL, MaxConns: 8, PoolWait: 5 * time.Second}})
	if err != nil {
		tb.Fatalf("celltest: open: %v", err)
	}
	tb.Cleanup(store.Close)
	return store
}

// Connect gives a connection of the test's own, without the store.
func Connect(tb testing.TB, databaseURL string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), databaseURL)
	if err != nil {
		tb.Fatalf("celltest: connect: %v", err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

func makeTemplate(ctx context.Context, server string) (string, error) {
	name := unique("template")
	if err := execute(ctx, server, "CREATE DATABASE "+name+" ENCODING 'UTF8' TEMPLATE template0"); err != nil {
		return "", err
	}
	store, err := cell.Open(ctx, cell.Options{Options: store.Options{URL: withDatabase(server, name), MaxConns: 2, PoolWait: 5 * time.Second}})
	if err != nil {
		return "", err
	}
	defer store.Close()
	_, err = store.Migrate(ctx)
	return name, err
}

func execute(ctx context.Context, server, statement string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

func unique(prefix string) string {
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // never fails, as documented
	return "fq_" + prefix + "_" + hex.EncodeToString(raw)
}

func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	u.Path = "/" + name
	return inSchema(u).String()
}

// inSchema adds the schema that the tests' tables are in, where FORGEQUEUE_TEST_SCHEMA names one: cells
// may be schemas of one database, so all that core does has to work in any.
func inSchema(u *url.URL) *url.URL {
	if schema := os.Getenv("FORGEQUEUE_TEST_SCHEMA"); schema != "" {
		given := u.Query()
		given.Set("search_path", schema)
		u.RawQuery = given.Encode()
	}
	return u
}

// Eventually waits until ok holds, and fails the test when it does not in time. what names the
// condition. The timeout is a guard against a hang, on a slow and busy machine too.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	EventuallyWithin(tb, 5*time.Minute, what, ok)
}

// EventuallyWithin is Eventually with a timeout of its own.
func EventuallyWithin(tb testing.TB, within time.Duration, what string, ok func() bool) {
	tb.Helper()
	// Ever more seldom: what is asked takes from what is waited for, on a machine that is busy with both.
	pause, most := 5*time.Millisecond, 200*time.Millisecond
	for over := time.Now().Add(within); !ok(); pause = min(pause*3/2, most) {
		if time.Now().After(over) {
			tb.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(pause)
	}
}
