package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A cell that does not answer refuses its own tenants, soon and for as long as it is frozen, and
// nobody else's calls wait for it.
func TestAFrozenCell(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second", "third")
	core := start(t, in.config())
	tenants := in.tenantsIn(core)
	for _, frozen := range []int{1, 0} {
		in.frozen(core, tenants, frozen)
	}
}

func (in *installation) frozen(core *running, tenants []hop.Principal, frozen int) {
	in.Helper()
	owner := tenants[frozen]
	request, before := jobOf()
	must[api.SubmitResponse](core, hop.SubmitJobs.Path, owner, request)
	key := fmt.Sprintf("keyofcell%03d", frozen)
	other := tenants[2]
	must[api.Key](core, hop.CreateKey.Path, operator, hop.CreateKeyRequest{
		KeyID: key, Kind: hop.PrincipalTenant, Tenant: other.Tenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeRead},
	})
	celltest.Eventually(in, "the key to be copied", func() bool {
		return in.count(2, `SELECT count(*) FROM api_keys WHERE key_id = $1`, key) == 1
	})
	held := in.hold(core, owner, other)
	thaw := in.stalls[frozen].freeze()
	defer thaw()
	celltest.Eventually(in, "the cell's tenant to be refused without being asked", func() bool {
		request, _ := jobOf()
		answer := ask[json.RawMessage](core, hop.SubmitJobs.Path, owner, request)
		return answer.Problem != nil && answer.Problem.Code == problem.CoreUnavailable
	})
	for range 20 { // while it is frozen, in one call with the others' items
		var items []hop.Item[hop.SubmitJobsRequest]
		for _, p := range tenants {
			request, _ := jobOf()
			items = append(items, hop.Item[hop.SubmitJobsRequest]{Principal: p, Request: request})
		}
		for cell, answer := range batch[json.RawMessage](core, hop.SubmitJobs.Path, items...) {
			if refused := answer.Status == http.StatusServiceUnavailable; refused != (cell == frozen) || answer.Status >= 500 && answer.Problem.RetryAfterMS == nil {
				in.Errorf("cell %d frozen, submit in cell %d: %+v", frozen, cell, answer)
			}
		}
	}
	// a platform's worker keeps its other jobs, and none is told to be lost
	beat := hop.WorkerHeartbeat{WorkerID: "p"}
	for _, j := range held {
		beat.Leases = append(beat.Leases, api.Lease{JobID: j.ID, LeaseToken: j.LeaseToken})
	}
	leases := must[api.HeartbeatResponse](core, hop.Heartbeat.Path, platform, beat).Leases
	if len(leases) != 2 || leases[0].Status != api.LeaseOK || leases[0].LeaseExpiresAt != nil || leases[1].Status != api.LeaseOK || leases[1].LeaseExpiresAt == nil {
		in.Errorf("leases while cell %d is frozen: %+v", frozen, leases)
	}
	ended := must[api.OutcomesResponse](core, hop.ReportOutcomes.Path, platform, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{complete(held[0]), complete(held[1])}}).Results
	if len(ended) != 2 || ended[0].Status != http.StatusServiceUnavailable || ended[0].Index != 0 || ended[1].Status != http.StatusOK || ended[1].Index != 1 {
		in.Errorf("outcomes while cell %d is frozen: %+v", frozen, ended)
	}
	got := must[api.ClaimResponse](core, hop.ClaimJobs.Path, platform, claimOf("p", time.Second))
	if len(got.Jobs) != 1 || got.Jobs[0].Tenant == owner.Tenant {
		in.Errorf("claim of the platform while cell %d is frozen: %+v", frozen, got)
	}
	if found := must[hop.KeyRecord](core, hop.LookUpKey.Path, hop.Principal{}, hop.ID{ID: key}); found.Tenant != other.Tenant {
		in.Errorf("key look-up while cell %d is frozen: %+v", frozen, found)
	}
	status, ready := core.fetch("GET", core.url+"/readyz", nil)
	if status != http.StatusOK || !strings.Contains(string(ready), `"degraded"`) || !strings.Contains(string(ready), `"cell `+in.names[frozen]+`":"down"`) {
		in.Errorf("readyz: %d %s", status, ready)
	}
	made := ask[api.Tenant](core, hop.CreateTenant.Path, operator, hop.WithID[api.TenantRequest]{
		ID: uuid.Must(uuid.NewV7()).String(), Value: api.TenantRequest{Name: "t"},
	})
	if (made.Problem != nil) != (frozen == 0) {
		in.Errorf("a new tenant while cell %d is frozen: %+v", frozen, made)
	}
	thaw()
	celltest.Eventually(in, "the cell to answer again", func() bool {
		return ask[api.Job](core, hop.GetJob.Path, owner, hop.ID{ID: before}).Problem == nil
	})
}

// hold gives a job of each tenant, leased to the platform's worker p for long.
func (in *installation) hold(core *running, owners ...hop.Principal) []api.ClaimedJob {
	in.Helper()
	held := make([]api.ClaimedJob, len(owners))
	for i, owner := range owners {
		must[api.Queue](core, hop.PutQueue.Path, owner, hop.Put[api.QueueRequest]{
			Name: "held", Value: api.QueueRequest{VisibilityTimeoutMS: new(int64(600_000))},
		})
		request, id := jobOf()
		request.Jobs[0].Queue = "held"
		must[api.SubmitResponse](core, hop.SubmitJobs.Path, owner, request)
		claim := claimOf("p", 20*time.Second)
		claim.Queues = []string{"held"}
		claimed := must[api.ClaimResponse](core, hop.ClaimJobs.Path, platform, claim)
		if len(claimed.Jobs) != 1 || claimed.Jobs[0].ID != id {
			in.Fatalf("held: %+v", claimed)
		}
		held[i] = claimed.Jobs[0]
	}
	return held
}

// A core starts without a cell that is away, and serves its tenants once it is back.
func TestACellThatIsAwayAtTheStart(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second")
	first := start(t, in.config())
	tenants := in.tenantsIn(first)
	for cell, owner := range tenants {
		must[api.Key](first, hop.CreateKey.Path, operator, hop.CreateKeyRequest{
			KeyID: fmt.Sprintf("keyofcell%03d", cell), Kind: hop.PrincipalTenant, Tenant: owner.Tenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeRead},
		})
		must[hop.TypeVersion](first, hop.PutType.Path, owner, hop.PutTypeRequest{Name: "mail"})
	}
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	thaw := in.stalls[1].freeze()
	defer thaw()
	core := start(t, in.config())
	keyOf := func(cell int) hop.Result[hop.KeyRecord] {
		return ask[hop.KeyRecord](core, hop.LookUpKey.Path, hop.Principal{}, hop.ID{ID: fmt.Sprintf("keyofcell%03d", cell)})
	}
	// without the cell nobody knows whether the tenant has types
	if answer := keyOf(1); answer.Status != http.StatusServiceUnavailable {
		t.Errorf("a key of the cell that is away: %+v", answer)
	}
	if answer := keyOf(0); answer.Problem != nil || answer.Value.TypesVersion != 1 || answer.Value.Cell != "" {
		t.Errorf("a key of the other cell: %+v", answer)
	}
	if answer := ask[json.RawMessage](core, hop.SubmitJobs.Path, tenants[1], func() hop.SubmitJobsRequest { r, _ := jobOf(); return r }()); answer.Status != http.StatusServiceUnavailable {
		t.Errorf("a submit to the cell that is away: %+v", answer)
	}
	request, _ := jobOf()
	must[api.SubmitResponse](core, hop.SubmitJobs.Path, tenants[0], request)
	thaw()
	celltest.Eventually(t, "the cell's tenants to be served", func() bool {
		answer := keyOf(1)
		if answer.Problem == nil && (answer.Value.TypesVersion != 1 || answer.Value.Cell != in.names[1]) {
			t.Errorf("the key of the cell that is back: %+v", answer.Value)
		}
		request, _ := jobOf()
		return ask[json.RawMessage](core, hop.SubmitJobs.Path, tenants[1], request).Problem == nil
	})
	_, text := core.fetch("GET", core.metrics+"/metrics", nil)
	for _, name := range in.names {
		if !strings.Contains(string(text), `forgequeue_jobs_submitted_total{cell="`+name+`"} 1`) {
			t.Errorf("no metrics of the cell %s", name)
		}
	}
}
