package sweep_test

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// one tenant's lock that does not come free stops backfill, drop and prune for all.
func TestOneTenantStopsTheSweep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.store.Tenants.Create(t.Context(), f.tenant, api.TenantRequest{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	limit := int64(10)
	f.capActive(&limit)
	duty := sweep.NewCounts(f.duties())
	key := caps.CountKey{Tenant: f.tenant, Counter: caps.ActiveTenant}
	f.submit(1, 0, func(j *submit.NewJob) { j.Caps = []caps.Cap{{CountKey: key, Limit: limit}} })
	// a count of another tenant whose cap is gone: it ought to be dropped
	f.exec(`INSERT INTO usage_counts (tenant_id, counter, name, opened_at) VALUES ($1, 1, '', now())`, uuid.New())
	conn := celltest.Connect(t, f.url)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, lockKey(f.tenant)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err := duty.RunOnce(t.Context())
	t.Logf("RunOnce: %v after %v; stored: %d", err, time.Since(start), len(f.counts()))
	if len(f.counts()) != 1 {
		t.Error("the other tenant's count is not dropped, nothing is pruned")
	}
}

// lockKey is the advisory lock that a tenant's submits take, as another core computes it.
func lockKey(id tenant.ID) int64 {
	sum := sha256.Sum256(append([]byte("forgequeue/submit/"), id[:]...))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
