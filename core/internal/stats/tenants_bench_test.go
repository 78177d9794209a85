package stats_test

import (
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// BenchmarkReadTenants reads an hour and a day of 1,000 tenants with 5 queues each, all of which do something each minute.
func BenchmarkReadTenants(b *testing.B) {
	url := celltest.URL(b)
	store, direct := celltest.OpenURL(b, url), celltest.Connect(b, url)
	for _, sql := range []string{
		`INSERT INTO tenants (id, name, plan, weight, overrides, created_at)
		SELECT gen_random_uuid(), 'tenant ' || n, 'standard', 1 + n % 5, '{}', now() FROM generate_series(1, 1000) AS n`,
		`INSERT INTO job_stats (tenant_id, queue, grain, at, submitted, started, completed, failed_attempts, dead_letter, cancelled, waiting_ms, running_ms)
		SELECT id, CASE q WHEN 0 THEN '' ELSE 'q' || q END, 1, date_trunc('minute', now()) - m * interval '1 minute', 1, weight, 1, 0, 0, 0, 1, 1
		FROM generate_series(1440, 0, -1) AS m, tenants, generate_series(0, 5) AS q`,
		`VACUUM ANALYZE job_stats`,
	} {
		if _, err := direct.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	to := time.Now()
	for _, one := range []struct {
		name, step string
		length     time.Duration
	}{{"hour", api.StepMinute, time.Hour}, {"six-hours", api.StepMinute, 6 * time.Hour}, {"day", api.StepHour, 23 * time.Hour}} {
		b.Run(one.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				made, err := store.Stats.TenantStats(b.Context(), hop.StatsRequest{From: new(api.At(to.Add(-one.length))), To: new(api.At(to)), Step: one.step})
				if err != nil || len(made.Tenants) != api.MaxStatsTenants || made.Others.Tenants != 1000-api.MaxStatsTenants {
					b.Fatal(made.Others.Tenants, err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
		})
	}
}
