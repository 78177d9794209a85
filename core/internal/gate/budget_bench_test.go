package gate_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// budgetBench is a core with a budget.
func budgetBench(b *testing.B, request api.BudgetRequest) (f *enginetest.Core, store *celltest.Fixture, owner uuid.UUID) {
	b.Helper()
	url := celltest.URL(b)
	db, direct := celltest.OpenURL(b, url), celltest.Connect(b, url)
	owner = uuid.Must(uuid.NewV7())
	if _, err := db.Tenants.Create(b.Context(), owner, api.TenantRequest{Name: "bench"}); err != nil {
		b.Fatal(err)
	}
	request.Unit = "tokens"
	if err := db.Budgets.Put(b.Context(), owner, "tokens", request); err != nil {
		b.Fatal(err)
	}
	core := (&enginetest.Fixture{}).NewCoreWith(engine.Options{Store: db})
	if err := core.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	return core, &celltest.Fixture{Store: db, Direct: direct}, owner
}

func submitOf(b *testing.B, core *enginetest.Core, owner uuid.UUID, requests []api.SubmitRequest) {
	b.Helper()
	call := submitsCall{Tenant: owner, Jobs: requests, Batch: true, Render: celltest.Render}
	for range requests {
		call.IDs = append(call.IDs, uuid.Must(uuid.NewV7()))
	}
	if answer := core.Submit(b.Context(), []submitsCall{call})[0]; answer.Err != nil || answer.Problem != nil {
		b.Fatal(answer.Err, answer.Problem)
	}
}

// BenchmarkBudget says how much of a budget is used by jobs that reserve twice what they use, with a backlog, two workers and the
// gate's duty, over four of its times, of 5 s each:
//
//	go test ./core/internal/gate -run '^$' -bench 'Budget$' -benchtime 1x
func BenchmarkBudget(b *testing.B) {
	for name, settles := range map[string]bool{"settled": true, "unsettled": false} {
		b.Run(name, func(b *testing.B) {
			const amount, cost, times, per = 200_000, 200, 4, 5 * time.Second
			core, f, owner := budgetBench(b, api.BudgetRequest{Amount: amount, PerMS: new(per.Milliseconds())})
			for range b.N {
				for range 20 {
					submitOf(b, core, owner, of("k", 1000, costing(cost)))
				}
				var used atomic.Int64
				var all sync.WaitGroup
				until := time.Now().Add(times * per)
				running := func() bool { return time.Now().Before(until) }
				all.Go(func() {
					pace := time.NewTicker(time.Millisecond)
					defer pace.Stop()
					for ; running(); <-pace.C {
						if err := core.PassGates(b.Context(), owner); err != nil {
							b.Error(err)
						}
					}
				})
				for range 2 {
					all.Go(func() {
						for running() {
							found, err := core.Claim(b.Context(), claims.Call{Owner: owner, WorkerID: "w", Queues: []string{api.DefaultQueue}, Max: 100, Wait: 5 * time.Millisecond})
							if err != nil {
								b.Error(err)
							}
							endings := enginetest.Endings(found)
							for i := range endings {
								if settles {
									endings[i].Used = api.Amounts{"tokens": cost / 2}
								}
							}
							for _, ended := range f.Store.Jobs.End(b.Context(), endings) {
								if ended.Err != nil {
									b.Error(ended.Err)
								}
							}
							used.Add(int64(len(found)) * cost / 2)
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(used.Load())/(times*amount), "used/amount")
			}
		})
	}
}

// BenchmarkClaimsBesideABudget claims jobs without costs, beside nothing, and beside 100,000 that wait for a budget that is used up:
//
//	go test ./core/internal/gate -run '^$' -bench BesideABudget -benchtime 1500x
func BenchmarkClaimsBesideABudget(b *testing.B) {
	for name, waiting := range map[string]int{"none": 0, "100000": 100_000} {
		b.Run(name, func(b *testing.B) {
			core, f, owner := budgetBench(b, api.BudgetRequest{Amount: 10, PerMS: new(int64(3_600_000))})
			submitOf(b, core, owner, of("k", 2, costing(10)))
			submitOf(b, core, owner, []api.SubmitRequest{{Type: "free"}})
			if err := core.PassGates(b.Context(), owner); err != nil {
				b.Fatal(err)
			}
			if found, err := core.Claim(b.Context(), claims.Call{Owner: owner, WorkerID: "w", Queues: []string{api.DefaultQueue}, Types: []string{"test"}, Max: 10}); err != nil || len(found) != 1 {
				b.Fatal(len(found), err)
			}
			exec := func(sql string, args ...any) {
				b.Helper()
				if _, err := f.Direct.Exec(b.Context(), sql, args...); err != nil {
					b.Fatal(err)
				}
			}
			const columns = `tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, key, gate, costs, size, created_at, run_at`
			exec(`WITH made AS (
				INSERT INTO jobs (id, `+columns+`, waiting_since)
				SELECT gen_random_uuid(), `+columns+`, now() FROM (SELECT * FROM jobs WHERE gate >= 8) AS one CROSS JOIN generate_series(1, $1) AS n RETURNING id, tenant_id)
			INSERT INTO budget_line (tenant_id, budget, subject, job_id, rank, key, turn, cost)
			SELECT tenant_id, 'tokens', '', id, 4, 'k', now(), 10 FROM made`, waiting)
			const each = 10
			exec(`INSERT INTO jobs (id, `+columns+`, ready_at)
				SELECT gen_random_uuid(), `+columns+`, now() + n * interval '1 microsecond' FROM (SELECT * FROM jobs WHERE type = 'free') AS one CROSS JOIN generate_series(1, $1) AS n`, each*(b.N+10))
			exec(`VACUUM ANALYZE jobs`)
			submitOf(b, core, owner, []api.SubmitRequest{{Type: "free"}}) // wakes the lane
			took := make([]time.Duration, 0, b.N)
			for range b.N {
				begun := time.Now()
				found, err := core.Claim(b.Context(), claims.Call{Owner: owner, WorkerID: "w", Queues: []string{api.DefaultQueue}, Max: each})
				if err != nil || len(found) < each {
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
