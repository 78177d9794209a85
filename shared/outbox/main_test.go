package outbox_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/cmd/supervisor/databasetest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/outbox"
)

func TestMain(m *testing.M) {
	code := storetest.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// with is a database's URL with another parameter.
func with(t *testing.T, database, name, value string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

func onServer(t *testing.T, sql string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), storetest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}

// fixture is a database with an outbox.
type fixture struct {
	*testing.T
	pool  *pgxpool.Pool
	table *outbox.Table
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	f := connected(t, databasetest.Empty(t))
	if _, err := f.table.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func connected(t *testing.T, database string) *fixture {
	t.Helper()
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &fixture{t, pool, outbox.Open(pool)}
}

// enqueue commits one row.
func (f *fixture) enqueue(kind, options string) int64 {
	f.Helper()
	if options != "" {
		options = ", " + options
	}
	return value[int64](f, "SELECT forgequeue_enqueue($1"+options+")", kind)
}

func value[T any](f *fixture, sql string, args ...any) T {
	f.Helper()
	var got T
	if err := f.pool.QueryRow(f.Context(), sql, args...).Scan(&got); err != nil {
		f.Fatalf("%s: %v", sql, err)
	}
	return got
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.pool.Exec(f.Context(), sql, args...); err != nil {
		f.Fatalf("%s: %v", sql, err)
	}
}

// in commits or rolls back what do does.
func (f *fixture) in(commit bool, do func(tx pgx.Tx)) {
	f.Helper()
	tx, err := f.pool.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	do(tx)
	if commit {
		err = tx.Commit(f.Context())
	} else {
		err = tx.Rollback(f.Context())
	}
	if err != nil {
		f.Fatal(err)
	}
}

// relay runs a relay until the test ends, or stop is called.
func (f *fixture) relay(server *server, change ...func(*outbox.Options)) (r *outbox.Relay, stop func()) {
	f.Helper()
	c, err := client.New(client.Options{URL: server.URL, APIKey: "fq_test_key"})
	if err != nil {
		f.Fatal(err)
	}
	o := outbox.Options{Table: f.table, Client: c, Poll: 20 * time.Millisecond, Senders: 2}
	for _, one := range change {
		one(&o)
	}
	if r, err = outbox.NewRelay(o); err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.Errorf("run: %v", err)
		}
		c.CloseIdleConnections()
	})
	f.Cleanup(stop)
	return r, stop
}

// eventually waits until done is true; a minute and more is a hang.
func (f *fixture) eventually(what string, done func() bool) {
	f.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stats, err := f.table.Stats(context.Background())
			f.Fatalf("not in time: %s; the outbox: %+v %v", what, stats, err)
		}
	}
}

// empty waits until nothing waits or is being sent.
func (f *fixture) empty() {
	f.Helper()
	f.eventually("the outbox is empty", func() bool {
		stats, err := f.table.Stats(f.Context())
		return err == nil && stats.Waiting == 0 && stats.Sending == 0
	})
}

type email struct {
	To string `json:"to"`
}

func (email) JobType() string { return "email.send" }
