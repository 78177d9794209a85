package submits_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// BenchmarkClaimsBesideBulk claims jobs of one tenant, ten at a time, alone and while another one's 100,000 jobs get another priority, or
// are cancelled:
//
//	go test ./core/internal/submits -run '^$' -bench BesideBulk -benchtime 2000x
func BenchmarkClaimsBesideBulk(b *testing.B) {
	for _, action := range []string{"none", api.BulkSetPriority, api.BulkCancel} {
		b.Run(action, func(b *testing.B) {
			url := celltest.URL(b)
			store, direct := celltest.OpenURL(b, url), celltest.Connect(b, url)
			core := (&enginetest.Fixture{}).NewCoreWith(engine.Options{Store: store})
			const each, many = 10, 100_000
			var owners []tenant.ID
			for _, jobs := range []int{each * (b.N + 10), many} {
				owner := uuid.Must(uuid.NewV7())
				owners = append(owners, owner)
				if _, err := store.Tenants.Create(b.Context(), owner, api.TenantRequest{Name: owner.String()}); err != nil {
					b.Fatal(err)
				}
				if _, err := direct.Exec(b.Context(), `WITH lane AS (INSERT INTO lanes (tenant_id, queue, type, tags, created_at) VALUES ($1, 'default', 'test', '{}', now()) RETURNING id)
					INSERT INTO jobs (id, tenant_id, lane_id, queue, type, state, priority, created_at, run_at, ready_at, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, size, tags, metadata, payload)
					SELECT gen_random_uuid(), $1, lane.id, 'default', 'test', 'queued', 5, now(), now(), now() + n * interval '1 microsecond', 3, 1000, 1000, 0, 0, '{}', '{}', 'null' FROM lane CROSS JOIN generate_series(1, $2) AS n`, owner, jobs); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := direct.Exec(b.Context(), `VACUUM ANALYZE jobs`); err != nil {
				b.Fatal(err)
			}
			if err := core.Refresh(b.Context()); err != nil {
				b.Fatal(err)
			}
			var over atomic.Bool
			var all sync.WaitGroup
			var done api.Bulk
			if action != "none" {
				request := api.BulkRequest{Action: action}
				if action == api.BulkSetPriority {
					request.To = &api.BulkTarget{Priority: new(9)}
				}
				made, err := store.DeadLetters.CreateBulk(b.Context(), owners[1], "", uuid.Must(uuid.NewV7()), &request)
				if err != nil {
					b.Fatal(err)
				}
				due := deadletter.DueRedrive{ID: uuid.MustParse(made.ID), TenantID: owners[1]}
				all.Go(func() { // as the duty does, which looks again each time a step is due
					for !over.Load() {
						if worked, err := core.StepRedrive(b.Context(), due, 0.5); err != nil {
							b.Error(err)
						} else if !worked {
							time.Sleep(5 * time.Millisecond)
						}
					}
				})
			}
			var took []time.Duration
			for range b.N {
				begun := time.Now()
				found, err := core.Claim(b.Context(), claims.Call{Owner: owners[0], WorkerID: "w", Queues: []string{api.DefaultQueue}, Max: each})
				if err != nil || len(found) < each {
					b.Fatal(len(found), err)
				}
				took = append(took, time.Since(begun))
			}
			over.Store(true)
			all.Wait()
			if action != "none" {
				list, err := store.DeadLetters.ListBulk(b.Context(), owners[1], "", uuid.Max, 1)
				if err != nil || list[0].Done == 0 {
					b.Fatal(list, err)
				}
				done = list[0]
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(done.Done), "changed")
		})
	}
}
