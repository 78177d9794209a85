package retention_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/retention"
)

// Every statement stays on its indexes, with statistics and without.
func TestPlans(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixtureOn(t, celltest.NewURL(t))
	f.CheckPlans("empty", retention.Planned())
	f.Exec(`INSERT INTO audit_log (id, tenant_id, actor_kind, action, detail, at)
		SELECT gen_random_uuid(), $1, 'operator', 'test', '{}', now() - n * interval '1 minute' FROM generate_series(1, 20000) AS n`, f.Tenant)
	f.CheckPlans("full, without statistics", retention.Planned())
	f.Exec("ANALYZE")
	f.CheckPlans("full, with statistics", retention.Planned())
}
