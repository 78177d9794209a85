package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestCellsServeTheirTenants(t *testing.T) {
	t.Parallel()
	t.Run("databases", func(t *testing.T) {
		t.Parallel()
		newInstallation(t, "first", "second", "third").serves()
	})
	t.Run("schemas", func(t *testing.T) { // of one database, which core migrate makes
		t.Parallel()
		shared := celltest.EmptyURL(t)
		newInstallationOn(t, func(cell string) string { return inSchema(t, shared, `Cell "`+cell+`", of one`) }, "first", "second", "third").serves()
	})
}

// inSchema gives a database's URL with a schema's name as its search_path.
func inSchema(t *testing.T, databaseURL, schema string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	given := u.Query()
	given.Set("search_path", pgx.Identifier{schema}.Sanitize()+", public")
	u.RawQuery = given.Encode()
	return u.String()
}

func (in *installation) serves() {
	t := in.T
	t.Helper()
	one, two := start(t, in.config()), start(t, in.config())
	tenants := in.tenantsIn(one)
	var items []hop.Item[hop.SubmitJobsRequest]
	var ids []string
	for range 2 {
		for _, owner := range tenants {
			request, id := jobOf()
			items, ids = append(items, hop.Item[hop.SubmitJobsRequest]{Principal: owner, Request: request}), append(ids, id)
		}
	}
	var answers []hop.Result[api.SubmitResponse]
	celltest.Eventually(t, "all cells to answer", func() bool { // a busy machine may be late with the looks at them
		answers = batch[api.SubmitResponse](two, hop.SubmitJobs.Path, items...)
		return !slices.ContainsFunc(answers, func(one hop.Result[api.SubmitResponse]) bool { return one.Status == http.StatusServiceUnavailable })
	})
	for i, answer := range answers {
		if answer.Problem != nil || answer.Value.ID != ids[i] {
			t.Fatalf("submit %d: %+v", i, answer)
		}
		if n := in.count(i%len(tenants), `SELECT count(*) FROM jobs WHERE id = $1`, ids[i]); n != 1 {
			t.Errorf("job %d is not in its tenant's cell", i)
		}
	}
	for cell, owner := range tenants {
		if got := must[api.Job](one, hop.GetJob.Path, owner, hop.ID{ID: ids[cell]}); got.ID != ids[cell] {
			t.Errorf("job of cell %d: %+v", cell, got)
		}
		other := tenants[(cell+1)%len(tenants)]
		if got := ask[api.Job](one, hop.GetJob.Path, other, hop.ID{ID: ids[cell]}); got.Status != http.StatusNotFound {
			t.Errorf("another tenant sees the job of cell %d: %+v", cell, got)
		}
		// by its tenant's worker
		claimed := must[api.ClaimResponse](two, hop.ClaimJobs.Path, owner, claimOf("own", 20*time.Second))
		if len(claimed.Jobs) != 1 {
			t.Fatalf("claim in cell %d: %+v", cell, claimed)
		}
		done := must[api.OutcomesResponse](one, hop.ReportOutcomes.Path, owner, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{complete(claimed.Jobs[0])}})
		if done.Results[0].Status != http.StatusOK {
			t.Errorf("outcome in cell %d: %+v", cell, done)
		}
	}
	in.platformWorker(one, two, tenants)
	in.audits(one, tenants)
	in.attempts(two, tenants)
	in.types(one, two, tenants)
	in.limits(one, two, tenants[1])
	in.deletion(one, two, tenants[2])
	if lines, err := app.Verify(t.Context(), in.cfg); err != nil || len(lines) != 0 {
		t.Errorf("verify: %v %v", lines, err)
	}
}

func complete(j api.ClaimedJob) api.OutcomeRequest {
	return api.OutcomeRequest{JobID: j.ID, Kind: api.KindComplete, LeaseToken: j.LeaseToken}
}

// platformWorker: it gets the jobs of all cells, and those that come while it waits.
func (in *installation) platformWorker(one, two *running, tenants []hop.Principal) {
	in.Helper()
	must[api.Worker](one, hop.RegisterWorker.Path, platform, api.WorkerRequest{WorkerID: "p", Queues: []string{api.DefaultQueue}})
	if got := must[api.Page[api.Worker]](two, hop.ListWorkers.Path, platform, hop.PageRequest{PageSize: 10}); len(got.Items) != 1 || got.NextPageToken != nil {
		in.Errorf("workers of the platform: %+v", got)
	}
	var held []api.ClaimedJob
	owners := map[string]bool{}
	for range tenants {
		claimed := must[api.ClaimResponse](one, hop.ClaimJobs.Path, platform, claimOf("p", 20*time.Second))
		if len(claimed.Jobs) != 1 {
			in.Fatalf("claim of the platform: %+v", claimed)
		}
		held = append(held, claimed.Jobs[0])
		owners[claimed.Jobs[0].Tenant] = true
	}
	if len(owners) != len(tenants) {
		in.Errorf("jobs of %d tenants, want %d", len(owners), len(tenants))
	}
	beat := hop.WorkerHeartbeat{WorkerID: "p"}
	outcomes := api.OutcomesRequest{}
	for _, j := range held {
		beat.Leases = append(beat.Leases, api.Lease{JobID: j.ID, LeaseToken: j.LeaseToken})
		outcomes.Outcomes = append(outcomes.Outcomes, complete(j))
	}
	for i, lease := range must[api.HeartbeatResponse](two, hop.Heartbeat.Path, platform, beat).Leases {
		if lease.Status != api.LeaseOK || lease.JobID != held[i].ID || lease.LeaseExpiresAt == nil {
			in.Errorf("lease %d: %+v", i, lease)
		}
	}
	for i, done := range must[api.OutcomesResponse](two, hop.ReportOutcomes.Path, platform, outcomes).Results {
		if done.Status != http.StatusOK || done.Index != i || done.Outcome == nil || done.Outcome.JobID != held[i].ID {
			in.Errorf("outcome %d: %+v", i, done)
		}
	}
	for cell, owner := range tenants { // parked in all cells
		answers := make(chan hop.Result[api.ClaimResponse], 1)
		go func() {
			answers <- ask[api.ClaimResponse](one, hop.ClaimJobs.Path, platform, claimOf("parked", 25*time.Second))
		}()
		celltest.Eventually(in, "the claim to wait in all cells", func() bool {
			for cell := range tenants {
				if in.count(cell, `SELECT count(*) FROM workers WHERE worker_id = 'parked'`) != 1 {
					return false
				}
			}
			return true
		})
		request, id := jobOf()
		must[api.SubmitResponse](two, hop.SubmitJobs.Path, owner, request)
		got := <-answers
		if got.Value == nil || len(got.Value.Jobs) != 1 || got.Value.Jobs[0].ID != id {
			in.Fatalf("the parked claim, a job of cell %d: %+v", cell, got)
		}
		must[api.OutcomesResponse](one, hop.ReportOutcomes.Path, platform, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{complete(got.Value.Jobs[0])}})
	}
	if got := ask[struct{}](one, hop.Leave.Path, platform, hop.ID{ID: "p"}); got.Problem != nil {
		in.Errorf("leave: %+v", got)
	}
}

// attempts: the operator reads those of all cells' tenants, and a tenant does not.
func (in *installation) attempts(r *running, tenants []hop.Principal) {
	in.Helper()
	celltest.Eventually(in, "the attempts of each cell's tenant, in one answer", func() bool {
		made := must[api.TenantStats](r, hop.GetTenantStats.Path, operator, hop.StatsRequest{})
		return !slices.ContainsFunc(tenants, func(owner hop.Principal) bool {
			return !slices.ContainsFunc(made.Tenants, func(one api.StatsTenant) bool {
				return one.TenantID == owner.Tenant && one.Started > 0 && one.Name != ""
			})
		})
	})
	if refused := ask[api.TenantStats](r, hop.GetTenantStats.Path, tenants[1], hop.StatsRequest{}); refused.Status != http.StatusForbidden {
		in.Errorf("a tenant reads the attempts of all: %+v", refused)
	}
}

// audits: what operators and tenants did, from all cells in one order, page by page.
func (in *installation) audits(r *running, tenants []hop.Principal) {
	in.Helper()
	manager := func(p hop.Principal) hop.Principal { p.KeyID = "manager"; return p }
	for range 3 {
		for _, owner := range tenants {
			must[api.Queue](r, hop.PutQueue.Path, manager(owner), hop.Put[api.QueueRequest]{Name: "q"})
		}
	}
	var all []api.AuditEntry
	token := ""
	for range 50 {
		page := must[api.Page[api.AuditEntry]](r, hop.ListAudit.Path, operator, hop.Filtered[api.AuditFilter]{PageRequest: hop.PageRequest{PageSize: 2, PageToken: token}})
		all = append(all, page.Items...)
		if page.NextPageToken == nil {
			break
		}
		token = *page.NextPageToken
	}
	stored := 0
	for cell := range in.names {
		stored += in.count(cell, `SELECT count(*) FROM audit_log`)
	}
	if len(all) != stored || stored < 4*len(tenants) {
		in.Errorf("%d entries of %d", len(all), stored)
	}
	for i := 1; i < len(all); i++ {
		if all[i].ID >= all[i-1].ID {
			in.Errorf("entry %d is not in order", i)
		}
	}
	if own := must[api.Page[api.AuditEntry]](r, hop.ListAudit.Path, manager(tenants[1]), hop.Filtered[api.AuditFilter]{PageRequest: hop.PageRequest{PageSize: 50}}); len(own.Items) != 4 {
		in.Errorf("a tenant sees %d entries: its making, and its queue three times", len(own.Items))
	}
}

// limits: a changed plan and a changed tenant are in force in its cell.
func (in *installation) limits(one, two *running, owner hop.Principal) {
	in.Helper()
	most := int64(1)
	must[api.Plan](one, hop.PutPlan.Path, operator, hop.Put[api.PlanRequest]{Name: "small", Value: api.PlanRequest{Limits: api.Limits{MaxActive: &most}}})
	must[api.Tenant](one, hop.PatchTenant.Path, operator, hop.WithID[api.TenantPatch]{ID: owner.Tenant, Value: api.TenantPatch{Plan: new("small")}})
	celltest.Eventually(in, "the cap to be in force in the other core", func() bool {
		request, _ := jobOf()
		answer := ask[json.RawMessage](two, hop.SubmitJobs.Path, owner, request)
		return answer.Problem != nil && answer.Problem.Code == problem.ActiveCapReached
	})
}

// types lie in their tenant's cell. The home cell looks keys up, and each core tells with them that there are types.
func (in *installation) types(one, two *running, tenants []hop.Principal) {
	in.Helper()
	for cell, owner := range tenants {
		keyID := "typedtyped" + strconv.Itoa(10+cell)
		must[api.Key](one, hop.CreateKey.Path, operator, hop.CreateKeyRequest{
			KeyID: keyID, Kind: hop.PrincipalTenant, Tenant: owner.Tenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeManage},
		})
		version := func(r *running) int64 {
			return must[hop.KeyRecord](r, hop.LookUpKey.Path, hop.Principal{}, hop.ID{ID: keyID}).TypesVersion
		}
		if got := version(one); got != 0 {
			in.Errorf("cell %d: version %d of no types", cell, got)
		}
		request := hop.PutTypeRequest{Name: "mail", Value: api.JobTypeRequest{
			ResultSchema: json.RawMessage(`{"type":"object"}`), CheckResults: true,
		}}
		if made := must[hop.TypeVersion](one, hop.PutType.Path, owner, request); made.Version != 1 || made.Revision != 1 {
			in.Errorf("cell %d: %+v", cell, made)
		}
		for other := range tenants {
			if n := in.count(other, `SELECT count(*) FROM job_types WHERE tenant_id = $1`, owner.Tenant); (n == 1) != (other == cell) {
				in.Errorf("cell %d has %d types of the tenant of cell %d", other, n, cell)
			}
		}
		if got := version(one); got != 1 {
			in.Errorf("cell %d: the core that set the type tells the version %d", cell, got)
		}
		celltest.Eventually(in, "the other core to tell the version", func() bool { return version(two) == 1 })
		if set := must[hop.TypeSet](two, hop.GetTypeSet.Path, owner, struct{}{}); set.Version != 1 || len(set.Types) != 1 {
			in.Errorf("cell %d: %+v", cell, set)
		}
	}
	in.checksResults(two, tenants[1])
}

// checksResults: an outcome of the platform's worker is checked in the cell of its lease.
func (in *installation) checksResults(r *running, owner hop.Principal) {
	in.Helper()
	request, id := jobOf()
	request.Jobs[0].Type = "mail"
	must[api.SubmitResponse](r, hop.SubmitJobs.Path, owner, request)
	held := must[api.ClaimResponse](r, hop.ClaimJobs.Path, platform, claimOf("checked", 20*time.Second))
	if len(held.Jobs) != 1 || held.Jobs[0].ID != id {
		in.Fatalf("claimed: %+v", held)
	}
	report := func(result string) api.OutcomeResult {
		outcome := complete(held.Jobs[0])
		outcome.Result = json.RawMessage(result)
		return must[api.OutcomesResponse](r, hop.ReportOutcomes.Path, platform, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{outcome}}).Results[0]
	}
	if got := report(`7`); got.Problem == nil || got.Problem.Code != problem.SchemaMismatch {
		in.Errorf("a result that does not fit: %+v", got)
	}
	if got := report(`{}`); got.Status != http.StatusOK {
		in.Errorf("a result that fits: %+v", got)
	}
}

func (in *installation) deletion(one, two *running, owner hop.Principal) {
	in.Helper()
	must[api.Key](one, hop.CreateKey.Path, operator, hop.CreateKeyRequest{
		KeyID: "copiedcopied", Kind: hop.PrincipalTenant, Tenant: owner.Tenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeRead},
	})
	celltest.Eventually(in, "the key to be copied to its tenant's cell", func() bool {
		return in.count(2, `SELECT count(*) FROM api_keys WHERE key_id = 'copiedcopied' AND revoked_at IS NULL`) == 1
	})
	if n := in.count(1, `SELECT count(*) FROM api_keys WHERE key_id = 'copiedcopied'`); n != 0 {
		in.Errorf("%d keys of another cell's tenants", n)
	}
	must[api.Tenant](one, hop.DeleteTenant.Path, operator, hop.ID{ID: owner.Tenant})
	celltest.Eventually(in, "its cell to refuse its jobs", func() bool {
		request, _ := jobOf()
		answer := ask[json.RawMessage](two, hop.SubmitJobs.Path, owner, request)
		return answer.Problem != nil && answer.Problem.Code == problem.Forbidden
	})
	celltest.Eventually(in, "the revoked key to be copied", func() bool {
		return in.count(2, `SELECT count(*) FROM api_keys WHERE revoked_at IS NULL`) == 0
	})
	if got := must[api.Tenant](two, hop.GetTenant.Path, operator, hop.ID{ID: owner.Tenant}); got.Deletion == nil || got.Deletion.State != api.DeletionRunning {
		in.Errorf("deletion: %+v", got.Deletion)
	}
}
