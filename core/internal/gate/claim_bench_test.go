package gate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// BenchmarkClaimsBesideBlockedKeys claims jobs of 10, beside nothing, and beside 100,000 keys of which each has one running job
// and one that waits at the gate for it:
//
//	go test ./core/internal/gate -run '^$' -bench Blocked -benchtime 2000x
func BenchmarkClaimsBesideBlockedKeys(b *testing.B) {
	for name, blocked := range map[string]int{"none": 0, "100000": 100_000} {
		b.Run(name, func(b *testing.B) {
			url := celltest.URL(b)
			db, direct := celltest.OpenURL(b, url), celltest.Connect(b, url)
			owner := uuid.Must(uuid.NewV7())
			if _, err := db.Tenants.Create(b.Context(), owner, api.TenantRequest{Name: "bench"}); err != nil {
				b.Fatal(err)
			}
			most := int64(1)
			if err := db.Queues.Put(b.Context(), owner, api.DefaultQueue, api.QueueRequest{Keys: &api.KeySettingsRequest{MaxRunning: &most}}); err != nil {
				b.Fatal(err)
			}
			core := (&enginetest.Fixture{}).NewCoreWith(engine.Options{Store: db})
			if err := core.Refresh(b.Context()); err != nil {
				b.Fatal(err)
			}
			submit := func(key string) {
				call := submitsCall{Tenant: owner, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: of(key, 1), Render: celltest.Render}
				if answer := core.Submit(b.Context(), []submitsCall{call})[0]; answer.Err != nil || answer.Problem != nil {
					b.Fatal(answer.Err, answer.Problem)
				}
			}
			submit("warm")
			exec := func(sql string, args ...any) {
				b.Helper()
				if _, err := direct.Exec(b.Context(), sql, args...); err != nil {
					b.Fatal(err)
				}
			}
			const columns = `id, tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, key, gate, size, attempt, epoch`
			exec(`INSERT INTO jobs (`+columns+`, started_at, worker_id, worker_owner, lease_id, lease_expires_at, visibility_timeout_ms, ready_at, waiting_since)
				SELECT gen_random_uuid(), tenant_id, lane_id, queue, type, 'running', priority, payload, tags, metadata, max_attempts, 1, 1, 0, now(), now(), 'key-' || n, 1, 8, 1, 1,
				       now(), 'w', tenant_id, gen_random_uuid(), now() + interval '1 hour', 3600000, now(), now()
				FROM jobs CROSS JOIN generate_series(1, $1) AS n`, blocked)
			exec(`INSERT INTO jobs (`+columns+`, waiting_since)
				SELECT gen_random_uuid(), tenant_id, lane_id, queue, type, 'queued', priority, payload, tags, metadata, max_attempts, 1, 1, 0, now(), now(), 'key-' || n, 1, 8, 0, 0, now()
				FROM (SELECT * FROM jobs WHERE key = 'warm') AS one CROSS JOIN generate_series(1, $1) AS n`, blocked)
			const each = 10
			exec(`INSERT INTO jobs (`+columns+`, ready_at, waiting_since)
				SELECT gen_random_uuid(), tenant_id, lane_id, queue, type, 'queued', priority, payload, tags, metadata, max_attempts, 1, 1, 0, now(), now(), 'free-' || n, 1, 8, 0, 0,
				       now() + n * interval '1 microsecond', now()
				FROM (SELECT * FROM jobs WHERE key = 'warm') AS one CROSS JOIN generate_series(1, $1) AS n`, each*(b.N+10))
			exec(`VACUUM ANALYZE jobs`)
			submit("second") // wakes the lane
			took := make([]time.Duration, 0, b.N)
			for range b.N {
				begun := time.Now()
				found, err := core.Claim(b.Context(), claims.Call{Owner: owner, WorkerID: "w", Queues: []string{api.DefaultQueue}, Max: each})
				if err != nil || len(found) < each-1 {
					b.Fatal(len(found), len(took), b.N, err)
				}
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
