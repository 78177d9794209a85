package sweep_test

import (
	"fmt"
	"strings"
	"testing"
)

// A round whose steps fail while others begin: each tenant's step fails once in a run. The race detector looks at what
// the steps share.
func TestDeliveriesOfManyTenantsFail(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const tenants = 100
	f.exec(`INSERT INTO webhook_events (tenant_id, webhook, kind, job, finished_at)
	        SELECT gen_random_uuid(), 'hook', 'job.completed', '{}', now() FROM generate_series(1, $1)`, tenants)
	f.exec(`ALTER TABLE webhooks RENAME TO away`)
	duty := f.duties().Deliveries()
	_, err := duty.RunOnce(t.Context())
	if n := strings.Count(fmt.Sprint(err), `"webhooks" does not exist`); n != tenants {
		t.Errorf("%d steps failed, want one of each of %d tenants", n, tenants)
	}
}
