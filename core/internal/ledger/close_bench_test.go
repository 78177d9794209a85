package ledger_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// BenchmarkLedger closes a day of 200,000 finished jobs of 100 tenants, and reads the usage of one tenant with 100,000 jobs
// on an open day.
func BenchmarkLedger(b *testing.B) {
	url := celltest.URL(b)
	store, direct := celltest.OpenURL(b, url), celltest.Connect(b, url)
	exec := func(sql string, args ...any) {
		b.Helper()
		if _, err := direct.Exec(b.Context(), sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	const fill = `INSERT INTO finished_jobs (id, tenant_id, lane_id, queue, type, user_id, state, priority, payload, tags, metadata, attempt, max_attempts, epoch, redrives,
			retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, started_at, finished_at, cancel_requested)
		SELECT gen_random_uuid(), ($1::uuid[])[1 + n % cardinality($1::uuid[])], 1, 'q', 't' || n % 5, 'u' || n % 1000, 'completed', 5, '{}', '{}', '{}', 1, 3, 1, 0,
			1, 1, 0, now() - $2::interval, now() - $2::interval, now() - $2::interval, now() - $2::interval, false
		FROM generate_series(1, $3::int) AS n`
	tenants := make([]uuid.UUID, 100)
	for i := range tenants {
		tenants[i] = uuid.New()
	}
	exec(`CREATE TABLE past PARTITION OF finished_jobs DEFAULT`)
	exec(fill, tenants, 48*time.Hour, 200_000)
	exec(fill, tenants[:1], time.Duration(0), 100_000)
	exec(`UPDATE ledger_days SET day = (now() AT TIME ZONE 'UTC')::date - 3`)
	b.Run("close-200k", func(b *testing.B) {
		for b.Loop() {
			if day, err := store.Ledger.CloseDay(b.Context()); err != nil || day == nil || !day.Over || day.Holder != nil {
				b.Fatal(day, err)
			}
			b.StopTimer()
			exec(`TRUNCATE ledger`)
			exec(`DELETE FROM ledger_days WHERE day = (SELECT max(day) FROM ledger_days)`)
			b.StartTimer()
		}
	})
	exec(`UPDATE ledger_days SET day = day + 2`)
	for _, by := range []string{api.ByDay, api.ByUser} {
		b.Run("read-open-100k-by-"+by, func(b *testing.B) {
			for b.Loop() {
				if made, err := store.Ledger.Usage(b.Context(), tenants[0], hop.UsageRequest{By: by}, "", 51); err != nil || !made.Capped {
					b.Fatal(made.Capped, err)
				}
			}
		})
	}
}
