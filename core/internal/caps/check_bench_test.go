package caps_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
)

// BenchmarkCheckCounts compares 10,000 users' counts with a million jobs of one tenant, a
// quarter of a second at a time, as the duty does: what all takes, and the longest call,
// which is how long a snapshot is held.
//
//	go test -run '^$' -bench CheckCounts -benchtime 1x ./core/internal/caps
func BenchmarkCheckCounts(b *testing.B) {
	url := celltest.URL(b)
	store, direct := celltest.OpenURL(b, url), celltest.Connect(b, url)
	owner := uuid.Must(uuid.NewV7())
	made, err := store.Lanes.Ensure(b.Context(), owner, []lanes.Ask{{Key: lanes.NewKey(owner, "default", "test", nil)}})
	if err != nil {
		b.Fatal(err)
	}
	users, tenant := int16(caps.ActiveUser), int16(caps.ActiveTenant)
	for _, fill := range []struct {
		sql  string
		args []any
	}{
		{`SET synchronous_commit = off`, nil},
		{`INSERT INTO jobs (id, tenant_id, lane_id, queue, type, user_id, state, priority, payload, tags, metadata, max_attempts,
		                    retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, ready_at, counted, size)
		  SELECT gen_random_uuid(), $1::uuid, $2::bigint, 'default', 'test', 'u' || n % 10000, 'queued', 0, '{}', '{}', '{}', 1, 1000, 1000, 0, now(), now(), now(), $3, 6
		  FROM generate_series(1, 1000000) n`, []any{owner, made[0].ID, users | tenant}},
		{`INSERT INTO usage_counts (tenant_id, counter, name, opened_at, settled)
		  SELECT $1::uuid, $2::smallint, 'u' || n, now(), true FROM generate_series(0, 9999) n UNION ALL SELECT $1::uuid, $3::smallint, '', now(), true`, []any{owner, users, tenant}},
		{`INSERT INTO usage_log (tenant_id, counter, name, seq, count, bound)
		  SELECT $1::uuid, $2::smallint, 'u' || n, 1, 100, pg_current_xact_id() FROM generate_series(0, 9999) n UNION ALL SELECT $1::uuid, $3::smallint, '', 1, 1000000, pg_current_xact_id()`, []any{owner, users, tenant}},
		{`VACUUM (ANALYZE) jobs`, nil},
	} {
		if _, err := direct.Exec(b.Context(), fill.sql, fill.args...); err != nil {
			b.Fatal(err)
		}
	}
	var calls []time.Duration
	checked := 0
	for b.Loop() {
		for after := (caps.CountKey{}); ; {
			stored, err := store.Counts.StoredCounts(b.Context(), after, 200)
			if err != nil {
				b.Fatal(err)
			}
			if len(stored) == 0 {
				break
			}
			keys := make([]caps.CountKey, len(stored))
			for i := range stored {
				keys[i] = stored[i].CountKey
			}
			begun := time.Now()
			drifts, n, err := store.Counts.CheckCounts(b.Context(), keys, 250*time.Millisecond)
			if err != nil || len(drifts) > 0 || n == 0 {
				b.Fatalf("%d checked, %v, %v", n, drifts, err)
			}
			calls = append(calls, time.Since(begun))
			checked += n
			after = keys[n-1]
		}
	}
	slices.Sort(calls)
	b.ReportMetric(float64(checked)/float64(b.N), "counts")
	b.ReportMetric(ms(calls[len(calls)/2]), "p50-call-ms")
	b.ReportMetric(ms(calls[len(calls)-1]), "longest-call-ms")
}
