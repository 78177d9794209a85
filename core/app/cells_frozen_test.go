package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A cell whose database does not answer is its own cores' trouble: the cells beside it in one process go on, also where it is the
// home cell, whose directory the others have copies of.
func TestAFrozenCell(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second", "third")
	core := start(t, in.config()) // it serves all of them
	cells := []*running{core.at("first"), core.at("second"), core.at("third")}
	tenants := in.tenantsIn(cells[0])
	must[api.Key](cells[0], hop.CreateKey.Path, operator, hop.CreateKeyRequest{
		KeyID: "keyofthethird", Kind: hop.PrincipalTenant, Tenant: tenants[2].Tenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeRead},
	})
	celltest.Eventually(t, "the key to be copied", func() bool {
		return ask[hop.KeyRecord](cells[2], hop.LookUpKey.Path, hop.Principal{}, hop.ID{ID: "keyofthethird"}).Problem == nil
	})
	for _, frozen := range []int{1, 0} {
		in.frozen(core, cells, tenants, frozen)
	}
}

func (in *installation) frozen(core *running, cells []*running, tenants []hop.Principal, frozen int) {
	in.Helper()
	request, before := jobOf()
	request.Jobs[0].Queue = "later"
	must[api.SubmitResponse](cells[frozen], hop.SubmitJobs.Path, tenants[frozen], request)
	thaw := in.stalls[frozen].freeze()
	defer thaw()
	var slowest time.Duration
	for range 20 {
		for cell, owner := range tenants {
			if cell == frozen {
				continue
			}
			begun := time.Now()
			request, id := jobOf()
			if answer := ask[api.SubmitResponse](cells[cell], hop.SubmitJobs.Path, owner, request); answer.Problem != nil {
				in.Fatalf("cell %d frozen, submit in cell %d: %+v", frozen, cell, answer.Problem)
			}
			claimed := must[api.ClaimResponse](cells[cell], hop.ClaimJobs.Path, platform, claimOf("p", 20*time.Second))
			if len(claimed.Jobs) != 1 || claimed.Jobs[0].ID != id {
				in.Fatalf("cell %d frozen, claim in cell %d: %+v", frozen, cell, claimed)
			}
			outcome := api.OutcomesRequest{Outcomes: []api.OutcomeRequest{complete(claimed.Jobs[0])}}
			if done := must[api.OutcomesResponse](cells[cell], hop.ReportOutcomes.Path, platform, outcome); done.Results[0].Status != http.StatusOK {
				in.Errorf("cell %d frozen, outcome in cell %d: %+v", frozen, cell, done)
			}
			slowest = max(slowest, time.Since(begun))
		}
	}
	in.Logf("cell %d frozen: a job of another cell took %v at most", frozen, slowest)
	if found := must[hop.KeyRecord](cells[2], hop.LookUpKey.Path, hop.Principal{}, hop.ID{ID: "keyofthethird"}); found.Tenant != tenants[2].Tenant {
		in.Errorf("key look-up while cell %d is frozen: %+v", frozen, found)
	}
	status, ready := core.fetch("GET", core.url+"/readyz", nil)
	if status != http.StatusOK || !strings.Contains(string(ready), `"degraded"`) || !strings.Contains(string(ready), `"cell `+in.names[frozen]+`":"down"`) {
		in.Errorf("readyz: %d %s", status, ready)
	}
	if frozen != 0 { // new tenants are made
		must[api.Tenant](cells[0], hop.CreateTenant.Path, operator, hop.WithID[api.TenantRequest]{
			ID: uuid.Must(uuid.NewV7()).String(), Value: api.TenantRequest{Name: "t", Cell: new("third")},
		})
	}
	thaw()
	celltest.Eventually(in, "the cell to answer again", func() bool {
		return ask[api.Job](cells[frozen], hop.GetJob.Path, tenants[frozen], hop.ID{ID: before}).Problem == nil
	})
}
