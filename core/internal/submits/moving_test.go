package submits_test

import (
	"errors"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Submits and outcomes of a tenant that is moved are refused, and those of others that came with them still share commits.
func TestGroupCommitsBesideATenantThatMoves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const each = 50
	moving := f.NewTenant()
	mixed := func() []submits.Call {
		var calls []submits.Call
		for range each {
			for _, owner := range []tenant.ID{moving, f.Tenant} {
				call := f.Call(enginetest.Plain())
				call.Tenant = owner
				calls = append(calls, call)
			}
		}
		return calls
	}
	f.Accepted(f.D.Submit(t.Context(), mixed())...)
	var endings []jobs.Ending
	for _, owner := range []tenant.ID{moving, f.Tenant} {
		call := f.ClaimCall()
		call.Owner = owner
		for _, held := range f.Claim(call) {
			endings = append(endings, jobs.Ending{Lease: held.Lease(), Kind: api.KindComplete})
		}
	}
	if len(endings) != 2*each {
		t.Fatalf("%d leases", len(endings))
	}
	f.Exec(`INSERT INTO tenant_fences (tenant_id, state) VALUES ($1, 'left')`, moving)
	for round := range 2 { // the second leaves the tenant out from the start
		before := f.Count(`SELECT count(DISTINCT created_at) FROM jobs WHERE tenant_id = $1`, f.Tenant)
		for i, answer := range f.D.Submit(t.Context(), mixed()) {
			if refused := errors.Is(answer.Err, store.ErrTenantMoved); refused != (i%2 == 0) {
				t.Fatalf("submit %d: %v", i, answer.Err)
			}
		}
		if n := f.Count(`SELECT count(DISTINCT created_at) FROM jobs WHERE tenant_id = $1`, f.Tenant) - before; n > 2 {
			t.Errorf("round %d: %d commits of %d submits", round, n, each)
		}
	}
	for i, ended := range f.D.End(t.Context(), endings) {
		if refused := errors.Is(ended.Err, store.ErrTenantMoved); refused != (i < each) {
			t.Fatalf("outcome %d: %v", i, ended.Err)
		}
	}
	if n := f.Count(`SELECT count(DISTINCT finished_at) FROM finished_jobs WHERE tenant_id = $1`, f.Tenant); n > 2 {
		t.Errorf("%d commits of %d outcomes", n, each)
	}
	if n := f.Count(`SELECT count(*) FROM jobs WHERE tenant_id = $1 AND state = 'running'`, moving); n != each {
		t.Errorf("%d jobs of the tenant run", n)
	}
}
