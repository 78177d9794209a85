package audit_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
)

// Every statement stays on its indexes, with statistics and without.
func TestPlans(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixtureOn(t, celltest.NewURL(t))
	f.CheckPlans("empty", audit.Planned())
	f.Exec(`INSERT INTO audit_log (id, tenant_id, actor_kind, action, detail, at)
		SELECT gen_random_uuid(), $1, 'operator', 'test', '{}', now() - n * interval '1 minute' FROM generate_series(1, 20000) AS n`, f.Tenant)
	f.CheckPlans("full, without statistics", audit.Planned())
	f.Exec("ANALYZE")
	f.CheckPlans("full, with statistics", audit.Planned())
}
