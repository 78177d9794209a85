package sweep_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/shared/api"
)

// 10,000 schedules of 20 tenants are due at one moment: how long until the last has its job, and what
// it does to another tenant's claims.
//
//	go test ./core/internal/sweep -run xxx -bench TenThousandSchedules -benchtime 3x
func BenchmarkTenThousandSchedules(b *testing.B) {
	for name, cores := range map[string]int{"one core": 1, "three cores": 3} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b)
			f.manySchedules(20, 500)
			var tickers []*sweep.Duty
			for range cores {
				store := celltest.OpenURL(b, f.url)
				tickers = append(tickers, sweep.New(store, f.d.Engine, counted(), quiet()).Schedules())
			}
			for _, ticker := range tickers {
				f.pending(ticker) // none is due; what a core does once at its start is done
			}
			var quietly, busy []time.Duration
			for b.Loop() {
				b.StopTimer()
				f.exec(`UPDATE schedules SET next_at = now(), due_at = now(), created_at = now()`)
				f.exec(`DELETE FROM schedule_runs`)
				quietly = append(quietly, f.claimFor(func(n int) bool { return n < 2000 })...)
				var done atomic.Bool
				var claims, ticks sync.WaitGroup
				claims.Go(func() { busy = append(busy, f.claimFor(func(int) bool { return !done.Load() })...) })
				b.StartTimer()
				for _, ticker := range tickers {
					ticks.Go(func() {
						for !done.Load() && f.pending(ticker) {
						}
						if done.CompareAndSwap(false, true) {
							b.StopTimer()
						}
					})
				}
				ticks.Wait()
				claims.Wait()
				f.exec(`DELETE FROM jobs WHERE tenant_id <> $1`, f.tenant)
				b.StartTimer()
			}
			b.ReportMetric(p99(quietly), "ms/claim-p99-quiet")
			b.ReportMetric(p99(busy), "ms/claim-p99-busy")
			b.ReportMetric(p99(busy)/p99(quietly), "busy/quiet")
		})
	}
}

func p99(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)*99/100]) / float64(time.Millisecond)
}

// pending works off what is due, and says whether something still is.
func (f *fixture) pending(ticker *sweep.Duty) bool {
	sleep, err := ticker.RunOnce(f.Context())
	if err != nil {
		f.Error(err)
	}
	next, err := f.store.Schedules.NextSchedule(f.Context())
	if err != nil {
		f.Error(err)
	}
	if *next.Until > 0 {
		return false
	}
	time.Sleep(sleep)
	return true
}

func (f *fixture) manySchedules(tenants, each int) {
	f.Helper()
	every := time.Hour.Milliseconds()
	for range tenants {
		owner := uuid.Must(uuid.NewV7())
		if _, err := f.d.PutSchedule(f.Context(), owner, "", "s0", api.ScheduleRequest{EveryMS: &every, Job: api.ScheduleJob{Type: "x", Payload: []byte(`{"n":1}`)}}); err != nil {
			f.Fatal(err)
		}
	}
	f.exec(`INSERT INTO schedules SELECT (jsonb_populate_record(s, jsonb_build_object('name', 's' || n))).* FROM schedules s, generate_series(1, $1) AS n`, each-1)
	f.exec(`ANALYZE`)
}

// claimFor submits, claims and completes jobs one by one, and gives how long the claims took.
func (f *fixture) claimFor(more func(n int) bool) (took []time.Duration) {
	for more(len(took)) {
		f.submit(1, 0)
		begun := time.Now()
		claimed, err := f.store.Claims.Claim(f.Context(), claim.Request{
			Lanes: []claim.Lane{{ID: f.lane.ID, VisibilityTimeout: 30 * time.Second}}, Workers: []claim.Worker{{ID: "w", Max: 1}}, Owner: f.tenant, LeaseID: uuid.New(),
		})
		took = append(took, time.Since(begun))
		if err != nil || len(claimed.Jobs) != 1 {
			f.Errorf("claimed %d: %v", len(claimed.Jobs), err)
			return took
		}
		f.store.Jobs.End(f.Context(), []jobs.Ending{{Lease: claimed.Jobs[0].Lease(), Kind: api.KindComplete}})
	}
	return took
}
