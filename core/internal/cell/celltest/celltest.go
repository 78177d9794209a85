// Package celltest gives each test a migrated database of its own, on a real PostgreSQL.
package celltest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/cmd/supervisor/databasetest"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// URL returns the URL of a migrated database without rows, which is the test's alone until it ends. Others
// have used it: see databasetest.
func URL(tb testing.TB) string {
	tb.Helper()
	if coordinator := os.Getenv(citusEnv); coordinator != "" {
		return distributed(tb, coordinator)
	}
	if _, measured := tb.(*testing.B); measured {
		return NewURL(tb)
	}
	return inSchema(migrated(tb).Lease(tb))
}

// NewURL returns the URL of a migrated database that no test has used: for tests of statistics, plans, the
// size of tables, and the schema itself.
func NewURL(tb testing.TB) string {
	tb.Helper()
	if coordinator := os.Getenv(citusEnv); coordinator != "" {
		return distributed(tb, coordinator)
	}
	return inSchema(migrated(tb).New(tb))
}

// EmptyURL returns the URL of a new database without a schema.
func EmptyURL(tb testing.TB) string {
	tb.Helper()
	return inSchema(databasetest.Empty(tb))
}

// Clone returns the URL of a copy of a database, as it is now. Nobody may be connected to it.
func Clone(tb testing.TB, databaseURL string) string {
	tb.Helper()
	if os.Getenv(citusEnv) != "" {
		tb.Skip("a distributed schema is not copied with its database")
	}
	return inSchema(databasetest.Copy(tb, databaseURL))
}

func migrated(tb testing.TB) *databasetest.Template {
	tb.Helper()
	return &databasetest.Template{
		Name: databasetest.Folder(tb, "core", "internal", "store", "migrations") + os.Getenv(schemaEnv),
		Make: func(ctx context.Context, url string) error {
			store, err := cell.Open(ctx, cell.Options{Options: store.Options{URL: inSchema(url), MaxConns: 2, PoolWait: 5 * time.Second}})
			if err != nil {
				return err
			}
			defer store.Close()
			_, err = store.Migrate(ctx)
			return err
		},
	}
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

// schemaEnv names the schema that the tests' tables are in, where it is set: cells may be schemas of one
// database, so all that core does has to work in any.
const schemaEnv = "FORGEQUEUE_TEST_SCHEMA"

func inSchema(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if schema := os.Getenv(schemaEnv); schema != "" && err == nil {
		given := u.Query()
		given.Set("search_path", schema)
		u.RawQuery = given.Encode()
		return u.String()
	}
	return databaseURL
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
