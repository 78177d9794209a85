package submits_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
)

// BenchmarkClaimsBesideWaiting claims jobs, beside none and beside a million that wait for a signal, and sends some of these their
// signal:
//
//	go test ./core/internal/submits -run '^$' -bench BesideWaiting -benchtime 1000x
func BenchmarkClaimsBesideWaiting(b *testing.B) {
	for name, waiting := range map[string]int{"none": 0, "1000000": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			url := celltest.URL(b)
			store, direct, owner := celltest.OpenURL(b, url), celltest.Connect(b, url), uuid.Must(uuid.NewV7())
			if _, err := store.Tenants.Create(b.Context(), owner, api.TenantRequest{Name: "bench"}); err != nil {
				b.Fatal(err)
			}
			core := (&enginetest.Fixture{}).NewCoreWith(engine.Options{Store: store})
			if err := core.Refresh(b.Context()); err != nil {
				b.Fatal(err)
			}
			submit := func(of string) {
				b.Helper()
				call := submits.Call{Tenant: owner, Jobs: []api.SubmitRequest{{Type: of}}, Batch: true, Render: celltest.Render, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}}
				if answer := core.Submit(b.Context(), []submits.Call{call})[0]; answer.Err != nil || answer.Problem != nil {
					b.Fatal(answer.Err, answer.Problem)
				}
			}
			claim := func(of string, most int) []claim.Job {
				b.Helper()
				found, err := core.Claim(b.Context(), claims.Call{Owner: owner, WorkerID: "w", Queues: []string{api.DefaultQueue}, Types: []string{of}, Max: most})
				if err != nil || len(found) < most {
					b.Fatal(len(found), err)
				}
				return found
			}
			exec := func(sql string, args ...any) {
				b.Helper()
				if _, err := direct.Exec(b.Context(), sql, args...); err != nil {
					b.Fatal(err)
				}
			}
			submit("asks")
			ending := enginetest.Endings(claim("asks", 1))[0]
			ending.Kind, ending.Wait, ending.Delay = api.KindWait, &jobs.Wait{Names: []string{"go"}}, time.Hour
			if ended := store.Jobs.End(b.Context(), []jobs.Ending{ending})[0]; ended.Err != nil {
				b.Fatal(ended.Err)
			}
			submit("free")
			const columns = `tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, key, size, created_at, linked`
			exec(`WITH made AS (
				INSERT INTO jobs (id, `+columns+`, run_at)
				SELECT gen_random_uuid(), `+columns+`, now() + interval '1 day' FROM (SELECT * FROM jobs WHERE state = 'waiting') AS one CROSS JOIN generate_series(1, $1) AS n RETURNING id, tenant_id)
			INSERT INTO job_waits (job_id, tenant_id, names, all_of) SELECT id, tenant_id, '{go}', false FROM made`, waiting)
			const each = 10
			exec(`INSERT INTO jobs (id, `+columns+`, run_at, ready_at)
				SELECT gen_random_uuid(), `+columns+`, now(), now() + n * interval '1 microsecond' FROM (SELECT * FROM jobs WHERE type = 'free') AS one CROSS JOIN generate_series(1, $1) AS n`, each*(b.N+10))
			exec(`VACUUM ANALYZE jobs`)
			submit("free") // wakes the lane
			var claimed, signalled []time.Duration
			timed := func(took *[]time.Duration, do func()) {
				begun := time.Now()
				do()
				*took = append(*took, time.Since(begun))
			}
			for range b.N {
				timed(&claimed, func() { claim("free", each) })
			}
			rows, err := direct.Query(b.Context(), `SELECT id FROM jobs WHERE state IN ('scheduled', 'waiting') LIMIT 500`)
			if err != nil {
				b.Fatal(err)
			}
			ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			if err != nil {
				b.Fatal(err)
			}
			for _, id := range ids {
				timed(&signalled, func() {
					if made, err := store.Jobs.Signal(b.Context(), owner, "", id, "go", nil); err != nil || made.Woken == nil {
						b.Fatal("it is not woken", err)
					}
				})
			}
			for name, took := range map[string][]time.Duration{"claim": claimed, "signal": signalled} {
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), name+"-p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), name+"-p99-µs")
			}
		})
	}
}
