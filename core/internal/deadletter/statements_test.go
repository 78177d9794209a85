package deadletter_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
)

// statements counts those that a store sends.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	s.n.Add(int64(len(data.Batch.QueuedQueries)))
	return ctx
}

func (*statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// A redrive of many ids takes a few statements, whatever they are: of unknown jobs, of completed ones, or dead
// letters of which some have a dedupe_key that a live job holds.
func TestARedriveOfManyIDsTakesFewStatements(t *testing.T) {
	t.Parallel()
	const most = 30
	for _, capped := range []bool{false, true} {
		t.Run(fmt.Sprintf("capped %v", capped), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			counted := &statements{}
			opened, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: 5 * time.Second, Tracer: counted}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(opened.Close)
			capsOf := deadletter.CapsOf(nil)
			if capped {
				key := caps.CountKey{Tenant: f.Tenant, Counter: caps.ActiveTenant}
				capsOf = func(string, *string) []caps.Cap { return []caps.Cap{{CountKey: key, Limit: 1_000_000}} }
			}
			f.AddDeadLetters(200, celltest.DeadLetterRows{})
			f.Exec(`UPDATE dead_letters SET dedupe_key = 'k' || right(id::text, 2) WHERE id::text LIKE '%7'`)
			live := f.Submit(f.Job(func(j *submit.NewJob) { j.DedupeKey = new("k17") }))[0]
			ids := f.deadIDs()
			for range 50 {
				ids = append(ids, uuid.New())
			}
			ids = append(ids, live)
			before := counted.n.Load()
			results := opened.DeadLetters.Redrive(t.Context(), f.Tenant, "", ids, capsOf)
			if n := counted.n.Load() - before; n > most {
				t.Errorf("%d statements, want at most %d", n, most)
			}
			outcomes := map[string]int{}
			for _, one := range results {
				outcomes[fmt.Sprint(one.Err)]++
			}
			// Of 13 letters with a key, several have the same one: one of each is redriven, and none whose key is held.
			held := f.countOf(`SELECT count(*) FROM dead_letters`)
			if outcomes["<nil>"] != 200-held || outcomes[deadletter.ErrDedupeConflict.Error()] != held || held == 0 ||
				outcomes[store.ErrNotFound.Error()] != 50 || outcomes[deadletter.ErrNotDead.Error()] != 1 {
				t.Errorf("%v; %d letters are left", outcomes, held)
			}
			if n := f.countOf(`SELECT count(*) FROM dead_letters AS d WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.dedupe_key = d.dedupe_key)`); n != 0 {
				t.Errorf("%d letters are left although no live job has their key", n)
			}
		})
	}
}

func (f *fixture) deadIDs() (ids []uuid.UUID) {
	f.Helper()
	rows, err := f.Direct.Query(f.Context(), `SELECT id FROM dead_letters ORDER BY id`)
	if err != nil {
		f.Fatal(err)
	}
	if ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]); err != nil {
		f.Fatal(err)
	}
	return ids
}

func (f *fixture) countOf(sql string) (n int) {
	f.Helper()
	if err := f.Direct.QueryRow(f.Context(), sql).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}
