package sweep_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/shared/api"
)

func (f *fixture) capActive(limit *int64) {
	f.Helper()
	patch := api.TenantPatch{Overrides: &api.Overrides{Limits: api.Limits{MaxActive: limit}}}
	if _, err := f.store.Tenants.Patch(f.Context(), f.tenant, patch); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) counts() []caps.StoredCount {
	f.Helper()
	stored, err := f.store.Counts.StoredCounts(f.Context(), caps.CountKey{}, 10)
	if err != nil {
		f.Fatal(err)
	}
	return stored
}

// A count takes in the jobs of cores with older limits, and ends with its cap.
func TestUsageBackfillsAndEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.store.Tenants.Create(t.Context(), f.tenant, api.TenantRequest{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	limit := int64(10)
	f.capActive(&limit)
	counter := counted()
	duty := sweep.NewCounts(f.duties(counter))
	run := func() {
		t.Helper()
		if err := duty.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	key := caps.CountKey{Tenant: f.tenant, Counter: caps.ActiveTenant}
	f.submit(1, 0, func(j *submit.NewJob) { j.Caps = []caps.Cap{{CountKey: key, Limit: limit}} })
	f.submit(4, 0) // by a core with older limits
	run()
	use, err := f.store.Tenants.CapUse(t.Context(), []caps.Cap{{CountKey: key, Limit: limit}})
	if err != nil || use[0].Used != 5 {
		t.Errorf("used %+v, %v; want 5", use, err)
	}
	if got := testutil.ToFloat64(counter.UsageBackfilled); got != 4 {
		t.Errorf("added %v, want 4", got)
	}
	f.exec(`UPDATE usage_counts SET opened_at = opened_at - interval '2 minutes', due_at = now()`)
	run()
	if stored := f.counts(); len(stored) != 1 || !stored[0].Settled {
		t.Errorf("stored %+v, want one, settled", stored)
	}
	f.capActive(nil)
	run()
	if stored := f.counts(); len(stored) != 0 {
		t.Errorf("without a cap %+v is stored", stored)
	}
}

// A job that a stalled core stores without its cap, after the count was settled, is found by the next round and counted.
func TestAJobStoredTooLateIsCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.store.Tenants.Create(t.Context(), f.tenant, api.TenantRequest{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	limit := int64(10)
	f.capActive(&limit)
	duty := sweep.NewCounts(f.duties())
	key := caps.CountKey{Tenant: f.tenant, Counter: caps.ActiveTenant}
	settle := func() {
		t.Helper()
		f.exec(`UPDATE usage_counts SET opened_at = opened_at - interval '2 minutes', due_at = now()`)
		if err := duty.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if stored := f.counts(); len(stored) != 1 || !stored[0].Settled {
			t.Fatalf("stored %+v, want one, settled", stored)
		}
	}
	f.submit(1, 0, func(j *submit.NewJob) { j.Caps = []caps.Cap{{CountKey: key, Limit: limit}} })
	settle()
	f.submit(1, 0) // by a core that has read the limits before there was one
	if err := duty.Recount(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stored := f.counts(); len(stored) != 1 || stored[0].Settled {
		t.Errorf("stored %+v, want one that is backfilled again", stored)
	}
	if err := duty.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle()
	if use, err := f.store.Tenants.CapUse(t.Context(), []caps.Cap{{CountKey: key, Limit: limit}}); err != nil || use[0].Used != 2 {
		t.Errorf("used %+v, %v; want 2", use, err)
	}
	if drifts, err := f.store.Counts.Verify(t.Context()); err != nil || len(drifts) > 0 {
		t.Errorf("drift: %v %v", drifts, err)
	}
}

func TestRecountShowsDrift(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	counter := counted()
	duty := sweep.NewCounts(f.duties(counter))
	key := caps.CountKey{Tenant: f.tenant, Counter: caps.ActiveTenant}
	f.submit(2, 0, func(j *submit.NewJob) { j.Caps = []caps.Cap{{CountKey: key, Limit: 10}} })
	f.exec(`UPDATE usage_log SET count = count + 1`)
	if err := duty.Recount(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(counter.UsageDrift); got != 1 {
		t.Errorf("drift = %v, want 1", got)
	}
	_, checked, err := f.store.Processes.ReadRegistry(t.Context())
	if err != nil || checked.Counted == nil || checked.Counted.Violations != 1 || checked.Verified != nil {
		t.Errorf("the operator sees %+v, %v", checked, err)
	}
}
