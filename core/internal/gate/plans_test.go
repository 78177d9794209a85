package gate_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What is asked about keys is answered by their own entries, whatever else is ready: with statistics of an empty table, and of one
// with many jobs that are ready.
func TestPlans(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &api.KeySettingsRequest{MaxRunning: new(int64(1))})
	f.submit(of("a", 1)...)
	conn := celltest.Connect(t, f.URL)
	for _, setting := range []string{"plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_bitmapscan = off"} {
		if _, err := conn.Exec(t.Context(), "SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		for _, sql := range gate.Planned() {
			plan := celltest.PlanOf(t, conn, sql)
			for _, wrong := range []string{"Seq Scan on jobs", "jobs_ready", "jobs_turns", "jobs_by_tenant", "hashed SubPlan"} {
				if strings.Contains(plan, wrong) {
					t.Errorf("%s: %s in\n%s\n%s", when, wrong, sql, plan)
				}
			}
		}
	}
	check("few jobs, without statistics")
	f.Exec(`ANALYZE jobs, key_checks, dead_letters`)
	check("few jobs")
	columns := `tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, gate, size, attempt, epoch, ready_at`
	f.Exec(`INSERT INTO jobs (id, key, ` + columns + `) SELECT gen_random_uuid(), 'k' || n % 100, ` + columns + ` FROM jobs CROSS JOIN generate_series(1, 20000) AS n`)
	check("many jobs, statistics of few")
	f.Exec(`ANALYZE jobs`)
	check("many jobs")
	f.Exec(`DELETE FROM jobs WHERE random() < 0.99`)
	check("few jobs, statistics of many")
}
