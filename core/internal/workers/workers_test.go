package workers_test

import (
	"errors"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestWorkersAgeAndLoseTheirLeases(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	id := f.Submit(f.Job())[0]
	if _, _, err := f.Store.Workers.SeenClaiming(t.Context(), f.Tenant, "w1", workers.Claiming{Queues: []string{"default"}}); err != nil {
		t.Fatal(err)
	}
	claimed := f.Claim(1, time.Hour)[0]
	ages := []struct {
		silent string
		want   workers.Aged
		status string
	}{
		{"29 seconds", workers.Aged{}, api.WorkerActive},
		{"31 seconds", workers.Aged{Stale: 1}, api.WorkerStale},
		{"121 seconds", workers.Aged{Dead: 1}, api.WorkerDead},
	}
	for _, age := range ages {
		f.Exec(`UPDATE workers SET last_heartbeat_at = statement_timestamp() - $1::interval`, age.silent)
		got, err := f.Store.Workers.Age(t.Context(), time.Time{})
		if err != nil || got != age.want {
			t.Fatalf("silent for %s: %+v %v", age.silent, got, err)
		}
		workers, err := f.Store.Workers.List(t.Context(), f.Tenant, "", 10)
		if err != nil || len(workers) != 1 || workers[0].Status != age.status || workers[0].Leases != 1 {
			t.Fatalf("silent for %s: %+v %v", age.silent, workers, err)
		}
		reaped, err := f.Store.Jobs.ReapDead(t.Context(), 10, celltest.Half)
		if err != nil || (len(reaped) == 1) != (age.status == api.WorkerDead) {
			t.Fatalf("silent for %s: reaped %+v %v", age.silent, reaped, err)
		}
	}
	if got := f.Get(id); got.State != api.StateQueued || got.LastError.Type != "lease_expired" {
		t.Fatalf("%+v", got.JobSummary)
	}
	if ended := f.End(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindComplete}); !errors.Is(ended.Err, jobs.ErrLeaseLost) {
		t.Errorf("the dead worker's outcome: %+v", ended)
	}
	f.Exec(`UPDATE workers SET last_heartbeat_at = statement_timestamp() - interval '25 hours'`)
	if got, err := f.Store.Workers.Age(t.Context(), time.Time{}); err != nil || got.Forgotten != 1 || f.Count("workers") != 0 {
		t.Fatalf("%+v %v", got, err)
	}
}
