package move_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/move"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Killed at random statements and run again, while jobs come in and are done in whichever cell takes them: each accepted job is
// in the target once, and none is left.
func TestAKilledMoveGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.capped()
	var accepted []uuid.UUID
	use := func(in *celltest.Fixture) error {
		found := in.Jobs(3, celltest.Under(in.ActiveCap(1_000_000)))
		_, err := in.Store.Submits.Submit(t.Context(), []submit.Submission{{Tenant: f.Tenant, Jobs: found, Render: celltest.Render}})
		if err != nil {
			return err
		}
		for i := range found {
			accepted = append(accepted, found[i].ID)
		}
		for i, job := range in.Claim(2, time.Minute) {
			kind := []string{api.KindComplete, api.KindFail}[i%2]
			in.MustEnd(jobs.Ending{Lease: job.Lease(), Kind: kind, Permanent: true, Error: &api.JobError{Type: "t", Message: "m"}})
		}
		return nil
	}
	if err := use(f.Fixture); err != nil {
		t.Fatal(err)
	}
	kills, phases := 0, map[string]int{}
	for n := 20; f.killedAfter(n, other) != nil; n = 3 + rand.IntN(150) {
		kills++
		phases[f.phase()]++
		if f.phase() == move.Removing && f.CountOf(`SELECT count(*) FROM tenant_fences WHERE tenant_id = $1`, f.Tenant) == 0 {
			continue // the source has forgotten the tenant, and nobody has asked it since the move has settled
		}
		if err := use(f.Fixture); err != nil && !errors.Is(err, store.ErrTenantMoved) {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, by phase %v; %d jobs accepted", kills, phases, len(accepted))
	if in := f.where(); in != other || kills == 0 {
		t.Fatalf("after %d kills the tenant is in %q", kills, in)
	}
	const all = `SELECT count(*) FROM (SELECT id FROM jobs WHERE tenant_id = $1 UNION ALL SELECT id FROM finished_jobs WHERE tenant_id = $1
		UNION ALL SELECT id FROM dead_letters WHERE tenant_id = $1) AS every`
	if n := f.there.CountOf(all, f.Tenant); n != len(accepted) {
		t.Errorf("%d jobs are in the target, %d were accepted", n, len(accepted))
	}
	distinct := `SELECT count(DISTINCT id) FROM (SELECT id FROM jobs UNION ALL SELECT id FROM finished_jobs UNION ALL SELECT id FROM dead_letters) AS every WHERE id = ANY($1::uuid[])`
	if n := f.there.CountOf(distinct, accepted); n != len(accepted) {
		t.Errorf("%d of %d accepted jobs are in the target", n, len(accepted))
	}
	if n := f.CountOf(all, f.Tenant); n > 0 {
		t.Errorf("%d are left in the source", n)
	}
	sound(f.Fixture, "the source")
	sound(f.there, "the target")
}
