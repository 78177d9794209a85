// Package databasetest gives each test a PostgreSQL database that no other test uses meanwhile, on the
// server of package storetest.
//
// To copy a database costs a third of a second of CPU, so databases are used again: a test leases one and,
// when it ends, the database is emptied and checked. One that is not as it was made is dropped. The free
// ones are listed in a table of the server, from which all test processes of a run take them.
package databasetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

// Template says what is in the databases of a test.
type Template struct {
	// Name is of lower-case letters, digits and _, at most 30. Templates of one name have the same content.
	Name string
	// Make fills the empty database at url.
	Make func(ctx context.Context, url string) error
}

// Folder is the name of a template that is made from the files of a folder: another content is another name.
// Its path begins at the folder that go.work is in. What is made for a day, such as a partition, is made for
// today, so that the name also has the date.
func Folder(tb testing.TB, path ...string) (name string) {
	tb.Helper()
	root, err := os.Getwd()
	for err == nil && root != filepath.Dir(root) {
		if _, missing := os.Stat(filepath.Join(root, "go.work")); missing == nil {
			break
		}
		root = filepath.Dir(root)
	}
	files := os.DirFS(filepath.Join(append([]string{root}, path...)...))
	sum := sha256.New()
	if err == nil {
		err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(files, name)
			_, _ = fmt.Fprintf(sum, "%s %d %s", name, len(content), content)
			return err
		})
	}
	if err != nil {
		tb.Fatalf("databasetest: %v", err)
	}
	return time.Now().UTC().Format("20060102") + "_" + hex.EncodeToString(sum.Sum(nil)[:8])
}

// Lease returns the URL of a database as Make has filled it. Other tests have used it before: its tables
// may have dead rows and statistics. It goes back at the end of the test, which must have closed what it
// opened; sessions that are left are ended.
func (t *Template) Lease(tb testing.TB) (url string) {
	tb.Helper()
	server, ctx := storetest.Postgres(tb), context.WithoutCancel(tb.Context())
	made, err := t.of(ctx, server)
	if err != nil {
		tb.Fatalf("databasetest: %s: %v", t.Name, err)
	}
	name, err := made.take(ctx)
	if err != nil {
		tb.Fatalf("databasetest: %v", err)
	}
	tb.Cleanup(func() {
		if err := made.giveBack(ctx, name); err != nil {
			tb.Errorf("databasetest: %v", err)
		}
	})
	return withDatabase(server, name)
}

// New returns the URL of a database that no test has used, for tests of what Lease may not have as new:
// statistics, plans, the size of files. It is dropped at the end of the test.
func (t *Template) New(tb testing.TB) (url string) {
	tb.Helper()
	server, ctx := storetest.Postgres(tb), context.WithoutCancel(tb.Context())
	made, err := t.of(ctx, server)
	if err != nil {
		tb.Fatalf("databasetest: %s: %v", t.Name, err)
	}
	name := unique("new")
	if err := made.copyTo(ctx, name); err != nil {
		tb.Fatalf("databasetest: %v", err)
	}
	dropAtEnd(tb, server, name)
	return withDatabase(server, name)
}

// Empty returns the URL of a database without any table, dropped at the end of the test.
func Empty(tb testing.TB) (url string) {
	tb.Helper()
	return create(tb, "ENCODING 'UTF8' TEMPLATE template0")
}

// Copy returns the URL of a copy of a database as it is now, dropped at the end of the test. It waits until
// nobody is connected to that database.
func Copy(tb testing.TB, databaseURL string) (url string) {
	tb.Helper()
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		tb.Fatalf("databasetest: %v", err)
	}
	if err := awaitNoSessions(tb.Context(), storetest.Postgres(tb), config.Database); err != nil {
		tb.Fatalf("databasetest: sessions of %s: %v", config.Database, err)
	}
	return create(tb, "TEMPLATE "+quoted(config.Database))
}

func create(tb testing.TB, how string) (url string) {
	tb.Helper()
	server, name := storetest.Postgres(tb), unique("new")
	if err := execute(context.WithoutCancel(tb.Context()), server, "CREATE DATABASE "+name+" "+how); err != nil {
		tb.Fatalf("databasetest: %v", err)
	}
	dropAtEnd(tb, server, name)
	return withDatabase(server, name)
}

func dropAtEnd(tb testing.TB, server, name string) {
	ctx := context.WithoutCancel(tb.Context())
	tb.Cleanup(func() {
		if err := drop(ctx, server, name); err != nil {
			tb.Errorf("databasetest: %v", err)
		}
	})
}

func drop(ctx context.Context, server, name string) error {
	return execute(ctx, server, "DROP DATABASE IF EXISTS "+quoted(name)+" WITH (FORCE)")
}

// awaitNoSessions waits at most hang.
func awaitNoSessions(ctx context.Context, server, name string) error {
	const sql = `SELECT count(*) FROM pg_stat_activity WHERE datname = $1`
	return connected(ctx, server, func(conn *pgx.Conn) error {
		for over := time.Now().Add(hang); ; time.Sleep(pause) {
			var sessions int
			if err := conn.QueryRow(ctx, sql, name).Scan(&sessions); err != nil || sessions == 0 {
				return err
			}
			if time.Now().After(over) {
				return context.DeadlineExceeded
			}
		}
	})
}

const (
	// hang is a guard: a slow and busy machine takes a tenth of it.
	hang  = 5 * time.Minute
	pause = 10 * time.Millisecond
)

func connected(ctx context.Context, url string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return do(conn)
}

func execute(ctx context.Context, url, statement string) error {
	return connected(ctx, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

func unique(prefix string) string {
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // never fails, as documented
	return "fq_" + prefix + "_" + hex.EncodeToString(raw)
}

// withDatabase replaces the database of a server's URL, which may also be a list of keywords and values.
func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return server + " dbname=" + name
	}
	u.Path = "/" + name
	return u.String()
}
