package stack

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5" //nolint:depguard // makes the databases that the tests run on

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

func migrate(tb testing.TB, settings map[string]string) {
	tb.Helper()
	service := newService(tb, settings, "core", "migrate")
	service.Start()
	if code := service.process.Wait(tb, time.Minute); code != 0 {
		tb.Fatalf("stack: migrate: exit code %d\n%s", code, service.process.Output())
	}
}

// template is the migrated database of which those of clusters are copies: it is made once for the process, and goes with
// its server.
//
//nolint:gochecknoglobals // one for the process is the point of it
var template struct {
	sync.Mutex // PostgreSQL refuses to copy a database that another session uses, another copy included
	name       string
}

// migratedDatabase makes a database with all tables, dropped at the end.
func migratedDatabase(tb testing.TB) string {
	tb.Helper()
	if OnCitus() {
		database := CitusSchema(tb, Citus(tb), true)
		migrate(tb, map[string]string{"DATABASE_URL": database, "FORGEQUEUE_LOG_LEVEL": "error"})
		return database
	}
	template.Lock()
	defer template.Unlock()
	if template.name == "" {
		name := fmt.Sprintf("fq_e2e_template_%d", os.Getpid())
		database := newDatabase(tb, name, "template0")
		migrate(tb, map[string]string{"DATABASE_URL": database, "FORGEQUEUE_LOG_LEVEL": "error"})
		template.name = name
	}
	return newDatabaseFrom(tb, template.name)
}

// NewDatabase makes an empty database, dropped at the end.
func NewDatabase(tb testing.TB) string {
	tb.Helper()
	return newDatabaseFrom(tb, "template0")
}

func newDatabaseFrom(tb testing.TB, template string) string {
	tb.Helper()
	name := fmt.Sprintf("fq_e2e_%d_%d", os.Getpid(), databases.Add(1))
	database := newDatabase(tb, name, template)
	tb.Cleanup(func() {
		if err := onServer(tb, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("stack: %v", err)
		}
	})
	return database
}

func newDatabase(tb testing.TB, name, template string) string {
	tb.Helper()
	if err := onServer(tb, "CREATE DATABASE "+name+" ENCODING 'UTF8' TEMPLATE "+template); err != nil {
		tb.Fatalf("stack: %v", err)
	}
	u, err := url.Parse(storetest.Postgres(tb))
	if err != nil {
		tb.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func onServer(tb testing.TB, sql string) error {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), storetest.Postgres(tb))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(context.Background(), sql)
	return err
}

//nolint:gochecknoglobals // names of databases have to differ in the whole process
var databases atomic.Int64
