package schedule_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/schedule"
)

// Every statement stays on its indexes, with statistics and without.
func TestPlans(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixtureOn(t, celltest.NewURL(t))
	f.CheckPlans("empty", schedule.Planned())
	f.Exec(`INSERT INTO schedules (tenant_id, name, every_ms, timezone, job, size, overlap, catch_up, catch_up_max, next_at, due_at, revision, created_at, updated_at)
		SELECT CASE WHEN n % 2 = 0 THEN $1 ELSE gen_random_uuid() END, 's' || n, 60000, 'UTC', '{"type":"t"}', 12, 'allow', 'none', 1,
		now() + n * interval '1 second', now() + n * interval '1 second', 1, now(), now() FROM generate_series(1, 10000) AS n`, f.Tenant)
	f.Exec(`INSERT INTO schedule_runs SELECT $1, 's' || n % 100, now() - n * interval '1 second', gen_random_uuid(), NULL FROM generate_series(1, 20000) AS n`, f.Tenant)
	f.CheckPlans("full, without statistics", schedule.Planned())
	f.Exec("ANALYZE")
	f.CheckPlans("full, with statistics", schedule.Planned())
}
