package caps_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// BenchmarkFold shows what counts cost while 1,000 tenants' jobs end a million times, and then 100,000 jobs of one
// tenant, by both ways to fold credits: alone, beside a snapshot that stays open, and beside a transaction that has
// written and stays open (decision 49).
//
//	go test -run '^$' -bench Fold -benchtime 1x ./core/internal/caps
func BenchmarkFold(b *testing.B) {
	for _, beside := range []string{"nothing", "snapshot", "writer"} {
		for _, way := range []string{"bounds", "deletes"} {
			b.Run("beside="+beside+"/"+way, func(b *testing.B) {
				f := newFold(b)
				if way == "deletes" { // as on Citus
					f.exec(f.direct, `CREATE OR REPLACE FUNCTION count_fold_bound() RETURNS xid8 LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT ''0''::xid8'`)
				}
				f.open(beside)
				for b.Loop() {
					f.many()
					f.one()
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

const foldTenants, foldRounds, foldBatch = 1000, 1000, 100

type fold struct {
	*testing.B

	store          *cell.Cell
	direct, holder *pgx.Conn
	keys           []caps.CountKey
}

func newFold(b *testing.B) *fold {
	b.Helper()
	url := celltest.URL(b)
	f := &fold{B: b, store: celltest.OpenURL(b, url), direct: celltest.Connect(b, url), holder: celltest.Connect(b, url)}
	for range foldTenants + 1 {
		f.keys = append(f.keys, caps.CountKey{Tenant: uuid.Must(uuid.NewV7()), Counter: caps.ActiveTenant})
	}
	for part := range slices.Chunk(f.keys, foldBatch) {
		f.take(part)
	}
	f.exec(f.direct, `INSERT INTO usage_counts (tenant_id, counter, name, opened_at, settled) SELECT DISTINCT tenant_id, counter, name, now(), true FROM usage_log`)
	f.exec(f.direct, `VACUUM ANALYZE`)
	return f
}

func (f *fold) exec(conn *pgx.Conn, sql string, args ...any) {
	f.Helper()
	if _, err := conn.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
}

func (f *fold) open(beside string) {
	switch beside {
	case "snapshot":
		f.exec(f.holder, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
		f.exec(f.holder, `SELECT count(*) FROM tenants`)
	case "writer":
		f.exec(f.holder, `BEGIN`)
		f.exec(f.holder, `SELECT pg_current_xact_id()`)
	}
}

// take adds ten jobs to each count, as submits do.
func (f *fold) take(keys []caps.CountKey) time.Duration {
	f.Helper()
	tenants := make([]tenant.ID, len(keys))
	for i, key := range keys {
		tenants[i] = key.Tenant
	}
	begun := time.Now()
	err := f.store.InTx(f.Context(), func(tx pgx.Tx) error {
		tally, err := f.store.Counts.LockAndRead(f.Context(), tx, store.LockSubmit, tenants, keys)
		if err != nil {
			return err
		}
		for _, key := range keys {
			tally.Take([]caps.Cap{{CountKey: key}}, 10)
		}
		batch := &pgx.Batch{}
		tally.Append(batch)
		return tx.SendBatch(f.Context(), batch).Close()
	})
	if err != nil {
		f.Fatal(err)
	}
	return time.Since(begun)
}

// leave ends a job of each count.
func (f *fold) leave(keys []caps.CountKey) time.Duration {
	f.Helper()
	batch, credits := &pgx.Batch{}, caps.Credits{}
	for _, key := range keys {
		credits[key] = -1
	}
	credits.Append(batch)
	begun := time.Now()
	if err := f.direct.SendBatch(f.Context(), batch).Close(); err != nil {
		f.Fatal(err)
	}
	return time.Since(begun)
}

func (f *fold) prune() time.Duration {
	f.Helper()
	begun := time.Now()
	for place := (caps.CountKey{}); ; {
		_, next, err := f.store.Counts.PruneUsage(f.Context(), place)
		if err != nil {
			f.Fatal(err)
		}
		if place = next; place == (caps.CountKey{}) {
			return time.Since(begun)
		}
	}
}

// read reads one count.
func (f *fold) read(key caps.CountKey) time.Duration {
	f.Helper()
	conn, err := f.store.Acquire(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Release()
	begun := time.Now()
	if _, err := caps.ReadUsage(f.Context(), conn, []caps.CountKey{key}); err != nil {
		f.Fatal(err)
	}
	return time.Since(begun)
}

func (f *fold) many() {
	keys := f.keys[1:]
	var takes, leaves, prunes, reads []time.Duration
	for round := range foldRounds {
		for part := range slices.Chunk(keys, foldBatch) {
			leaves = append(leaves, f.leave(part))
			if round%10 == 9 {
				takes = append(takes, f.take(part))
			}
		}
		if round%100 == 99 {
			prunes = append(prunes, f.prune())
		}
	}
	for _, key := range keys {
		reads = append(reads, f.read(key))
	}
	f.report("append", leaves, foldBatch)
	f.report("submit", takes, foldBatch)
	f.report("read", reads, 1)
	f.report("prune", prunes, 1)
	f.sizes("")
}

// one is of a busy tenant: 100 jobs of it end in 100 statements, then it submits.
func (f *fold) one() {
	var takes, reads []time.Duration
	key := f.keys[:1]
	for round := range 1000 {
		f.exec(f.direct, `DO $$ BEGIN FOR i IN 1..100 LOOP INSERT INTO usage_credits SELECT tenant_id, counter, name, -1, pg_current_xact_id() FROM usage_counts
			WHERE tenant_id = '`+key[0].Tenant.String()+`'; COMMIT; END LOOP; END $$`)
		reads = append(reads, f.read(key[0]))
		takes = append(takes, f.take(key))
		if round%100 == 99 {
			f.prune()
		}
	}
	f.report("busy-read", reads, 1)
	f.report("busy-submit", takes, 1)
	f.report("busy-last-read", reads[900:], 1)
	f.report("busy-last-submit", takes[900:], 1)
	f.sizes("busy-")
}

func (f *fold) report(what string, all []time.Duration, each int) {
	all = slices.Clone(all)
	slices.Sort(all)
	f.ReportMetric(float64(all[len(all)/2].Microseconds())/float64(each), what+"-µs")
}

func (f *fold) sizes(what string) {
	var bytes int64
	if err := f.direct.QueryRow(f.Context(), `SELECT pg_total_relation_size('usage_credits') + pg_total_relation_size('usage_log')`).Scan(&bytes); err != nil {
		f.Fatal(err)
	}
	f.ReportMetric(float64(bytes)/1e6, what+"MB")
}
