package operations_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestAClaimWaits(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	answers := make(chan api.ClaimResponse, 1)
	claim := calltest.ClaimOf(20 * time.Second)
	claim.WorkerID = "parked"
	go func() { answers <- calltest.One[api.ClaimResponse](f, hop.ClaimJobs.Path, f.Tenant, claim) }()
	celltest.Eventually(t, "the claim to come", func() bool { return f.Parked() == 1 })
	id := f.Submit()
	if got := <-answers; len(got.Jobs) != 1 || got.Jobs[0].ID != id {
		t.Errorf("claim = %+v", got)
	}
	start := time.Now()
	if got := calltest.One[api.ClaimResponse](f, hop.ClaimJobs.Path, f.Tenant, calltest.ClaimOf(100*time.Millisecond)); got.Jobs == nil || len(got.Jobs) != 0 ||
		time.Since(start) < 100*time.Millisecond {
		t.Errorf("claim = %+v after %v", got, time.Since(start))
	}
	f.Draining.Store(true)
	start = time.Now()
	if got := calltest.One[api.ClaimResponse](f, hop.ClaimJobs.Path, f.Tenant, claim); len(got.Jobs) != 0 || time.Since(start) > 10*time.Second {
		t.Errorf("claim while draining = %+v after %v", got, time.Since(start))
	}
}
