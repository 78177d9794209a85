package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

const writeSQL = `INSERT INTO plans (name, limits) VALUES (gen_random_uuid()::text, '{}') RETURNING name`

func write(ctx context.Context, s *store.Store) error {
	_, err := store.Query(ctx, s, pgx.RowTo[string], writeSQL, store.Args{})
	return err
}

func open(t *testing.T, databaseURL string, conns int32) *store.Store {
	t.Helper()
	opened, err := store.Open(t.Context(), store.Options{URL: databaseURL, MaxConns: conns, PoolWait: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

// eachConn runs a statement on each connection of a pool, at the same time.
func eachConn(t *testing.T, s *store.Store, conns int, sql string) {
	t.Helper()
	held := make([]*store.Conn, 0, conns)
	defer func() {
		for _, conn := range held {
			conn.Release()
		}
	}()
	for range conns {
		conn, err := s.Acquire(store.WithClass(t.Context(), store.ClassOutcomes))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// A session keeps the default_transaction_read_only that it began with: one that began while the database was
// read-only would refuse writes for as long as the pool keeps it.
func TestWritesAfterAReadOnlyTime(t *testing.T) {
	t.Parallel()
	databaseURL := celltest.NewURL(t)
	direct := celltest.Connect(t, databaseURL)
	alter := func(change string) {
		t.Helper()
		var name string
		if err := direct.QueryRow(t.Context(), `SELECT quote_ident(current_database())`).Scan(&name); err != nil {
			t.Fatal(err)
		}
		if _, err := direct.Exec(t.Context(), `ALTER DATABASE `+name+` `+change); err != nil {
			t.Fatal(err)
		}
	}
	alter(`SET default_transaction_read_only = on`)
	s := open(t, databaseURL, 4)
	eachConn(t, s, 4, `SELECT 1`)
	if err := s.Writable(t.Context()); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
	if err := write(t.Context(), s); !errors.Is(err, store.ErrUnavailable) || !store.Definite(err) {
		t.Errorf("a write while it is read-only: %v", err)
	}
	alter(`RESET default_transaction_read_only`)
	began := time.Now()
	celltest.Eventually(t, "a write", func() bool { return write(t.Context(), s) == nil })
	t.Logf("the first write took effect after %v", time.Since(began))
	if err := s.Writable(t.Context()); err != nil {
		t.Errorf("writable: %v", err)
	}
	for range 8 {
		if err := write(t.Context(), s); err != nil {
			t.Errorf("a later write: %v", err)
		}
	}
}

// A server that is demoted without ending its sessions refuses one write, not one for each connection of the pool.
func TestADemotedServerRefusesOneWrite(t *testing.T) {
	t.Parallel()
	s := open(t, celltest.URL(t), 4)
	eachConn(t, s, 4, `SET default_transaction_read_only = on`)
	if err := write(t.Context(), s); !errors.Is(err, store.ErrUnavailable) || !store.Definite(err) {
		t.Errorf("the first write: %v", err)
	}
	for range 8 {
		if err := write(t.Context(), s); err != nil {
			t.Errorf("a later write: %v", err)
		}
	}
}
