package claims_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A heartbeat that fails for the lease of a tenant that is moved still stores the progress of the others, and wakes those
// who wait for it. Nothing polls in this test.
func TestAHeartbeatThatFailsForOneTenantIsToldOfTheOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	moved := f.NewTenant()
	id := f.Submit(enginetest.Plain())[0]
	f.Accepted(f.D.Submit(t.Context(), []submits.Call{{Tenant: moved, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{enginetest.Plain()}}})...)
	call := f.ClaimCall()
	call.Owner = tenant.Platform
	claimed := f.Claim(call)
	if len(claimed) != 2 {
		t.Fatalf("claimed %d jobs", len(claimed))
	}
	f.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'moved' USING ERRCODE = '` + store.TenantMovedCode + `', DETAIL = OLD.tenant_id::text; END $$`)
	f.Exec(`CREATE TRIGGER refuse BEFORE UPDATE ON jobs FOR EACH ROW WHEN (OLD.tenant_id = '` + moved.String() + `') EXECUTE FUNCTION refuse()`)
	job := f.Get(id)
	version := job.Version()
	seen := f.WaitVersion(f.D, id, version)
	f.Watched(id)
	reports := make([]jobs.Report, 2)
	for i := range claimed {
		report := jobs.Report{Lease: claimed[i].Lease(), Progress: &api.Progress{Percent: new(50.0)}}
		if claimed[i].TenantID == moved {
			reports[0] = report // before the other one
		} else {
			reports[1] = report
		}
	}
	if _, err := f.D.Heartbeat(t.Context(), reports); !errors.Is(err, store.ErrTenantMoved) {
		t.Errorf("the heartbeat: %v", err)
	}
	if got := <-seen; got.Version() == version {
		t.Error("the progress was not told")
	}
}
