package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
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
	// The home cell's core, and one that serves the two others.
	home := in.config()
	home.ServeCells = []string{in.names[0]}
	one := start(t, home)
	others := in.config()
	others.ServeCells, others.HomeURL = in.names[1:], one.url+"/cells/"+in.names[0]
	two := start(t, others)
	cells := []*running{one.at(in.names[0]), two.at(in.names[1]), two.at(in.names[2])}
	tenants := in.tenantsIn(cells[0])
	ids := make([]string, len(tenants))
	for cell, owner := range tenants {
		request, id := jobOf()
		ids[cell] = id
		// A tenant that was made a moment ago is known in its cell.
		if answer := ask[api.SubmitResponse](cells[cell], hop.SubmitJobs.Path, owner, request); answer.Problem != nil || answer.Value.ID != id {
			t.Fatalf("submit in cell %d: %+v", cell, answer.Problem)
		}
		if n := in.count(cell, `SELECT count(*) FROM jobs WHERE id = $1`, id); n != 1 {
			t.Errorf("job %d is not in its tenant's cell", cell)
		}
	}
	for cell, owner := range tenants {
		if got := must[api.Job](cells[cell], hop.GetJob.Path, owner, hop.ID{ID: ids[cell]}); got.ID != ids[cell] {
			t.Errorf("job of cell %d: %+v", cell, got)
		}
		in.refusesElsewhere(cells, cell, owner)
		claimed := must[api.ClaimResponse](cells[cell], hop.ClaimJobs.Path, owner, claimOf("own", 20*time.Second))
		if len(claimed.Jobs) != 1 {
			t.Fatalf("claim in cell %d: %+v", cell, claimed)
		}
		done := must[api.OutcomesResponse](cells[cell], hop.ReportOutcomes.Path, owner, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{complete(claimed.Jobs[0])}})
		if done.Results[0].Status != http.StatusOK {
			t.Errorf("outcome in cell %d: %+v", cell, done)
		}
		in.types(cells[cell], cell, owner)
	}
	in.limits(cells, tenants[1])
	in.deletion(cells, tenants[2])
	in.probes(one, two)
	if lines, err := app.Verify(t.Context(), in.cfg); err != nil || len(lines) != 0 {
		t.Errorf("verify: %v %v", lines, err)
	}
}

// refusesElsewhere: a gateway that has not heard where a tenant is stores and reads nothing in a wrong cell, and a cell that is not
// the home has no directory.
func (in *installation) refusesElsewhere(cells []*running, cell int, owner hop.Principal) {
	in.Helper()
	other := (cell + 1) % len(cells)
	request, _ := jobOf()
	moving := func(what string, p *problem.Problem) {
		in.Helper()
		if p == nil || p.Code != problem.TenantMoving || p.RetryAfterMS == nil {
			in.Errorf("%s of the tenant of cell %d in cell %d: %+v", what, cell, other, p)
		}
	}
	moving("a submit", askOr[json.RawMessage](cells[other], hop.SubmitJobs.Path, owner, request).Problem)
	moving("a list", askOr[json.RawMessage](cells[other], hop.ListJobs.Path, owner, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageSize: 10}}).Problem)
	moving("a claim", askOr[json.RawMessage](cells[other], hop.ClaimJobs.Path, owner, claimOf("lost", 0)).Problem)
	if other != 0 {
		if refused := askOr[json.RawMessage](cells[other], hop.CreateKey.Path, owner, hop.CreateKeyRequest{}).Problem; refused == nil || refused.Code != problem.CoreUnavailable {
			in.Errorf("a key in cell %d: %+v", other, refused)
		}
	}
}

// probes: a process says how each of its cells is, and each cell by itself.
func (in *installation) probes(one, two *running) {
	in.Helper()
	for _, probe := range []struct {
		of   *running
		path string
		says string
	}{
		{one, "/livez", `"ok"`},
		{one, "/readyz", `"cell ` + in.names[0] + `":"ok"`},
		{two, "/readyz", `"cell ` + in.names[2] + `":"ok"`},
		{two, "/cells/" + in.names[1] + "/readyz", `"database":"ok"`},
	} {
		if status, text := probe.of.fetch("GET", probe.of.url+probe.path, nil); status != http.StatusOK || !strings.Contains(string(text), probe.says) {
			in.Errorf("%s: %d %s", probe.path, status, text)
		}
	}
	if status, text := one.fetch("POST", one.url+hop.GetJob.Path, []byte("{}")); status != http.StatusNotFound || !strings.Contains(string(text), "FORGEQUEUE_CORE_URL") {
		in.Errorf("a call that names no cell: %d %s", status, text)
	}
}

// at is the core as gateways see one of its cells.
func (r *running) at(cell string) *running {
	one := *r
	one.url += "/cells/" + cell
	return &one
}

func complete(j api.ClaimedJob) api.OutcomeRequest {
	return api.OutcomeRequest{JobID: j.ID, Kind: api.KindComplete, LeaseToken: j.LeaseToken}
}

// limits: a changed plan and a changed tenant are in force in its cell soon, and a key is known there.
func (in *installation) limits(cells []*running, owner hop.Principal) {
	in.Helper()
	most := int64(1)
	must[api.Plan](cells[0], hop.PutPlan.Path, operator, hop.Put[api.PlanRequest]{Name: "small", Value: api.PlanRequest{Limits: api.Limits{MaxActive: &most}}})
	must[api.Tenant](cells[0], hop.PatchTenant.Path, operator, hop.WithID[api.TenantPatch]{ID: owner.Tenant, Value: api.TenantPatch{Plan: new("small")}})
	celltest.Eventually(in, "the cap to be in force", func() bool {
		request, _ := jobOf()
		answer := ask[json.RawMessage](cells[1], hop.SubmitJobs.Path, owner, request)
		return answer.Problem != nil && answer.Problem.Code == problem.ActiveCapReached
	})
}

// types lie in their tenant's cell, and are checked there.
func (in *installation) types(r *running, cell int, owner hop.Principal) {
	in.Helper()
	request := hop.PutTypeRequest{Name: "mail", Value: api.JobTypeRequest{
		ResultSchema: json.RawMessage(`{"type":"object"}`), CheckResults: true,
	}}
	if made := must[hop.TypeVersion](r, hop.PutType.Path, owner, request); made.Version != 1 || made.Revision != 1 {
		in.Errorf("cell %d: %+v", cell, made)
	}
	for other := range in.names {
		if n := in.count(other, `SELECT count(*) FROM job_types WHERE tenant_id = $1`, owner.Tenant); (n == 1) != (other == cell) {
			in.Errorf("cell %d has %d types of the tenant of cell %d", other, n, cell)
		}
	}
	submit, id := jobOf()
	submit.Jobs[0].Type = "mail"
	must[api.SubmitResponse](r, hop.SubmitJobs.Path, owner, submit)
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

func (in *installation) deletion(cells []*running, owner hop.Principal) {
	in.Helper()
	must[api.Key](cells[0], hop.CreateKey.Path, operator, hop.CreateKeyRequest{
		KeyID: "copiedcopied", Kind: hop.PrincipalTenant, Tenant: owner.Tenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeRead},
	})
	if found := must[hop.KeyRecord](cells[0], hop.LookUpKey.Path, hop.Principal{}, hop.ID{ID: "copiedcopied"}); found.Cell != in.names[2] {
		in.Errorf("the key is of the cell %q", found.Cell)
	}
	celltest.Eventually(in, "the key to be copied to its tenant's cell", func() bool {
		return ask[hop.KeyRecord](cells[2], hop.LookUpKey.Path, hop.Principal{}, hop.ID{ID: "copiedcopied"}).Problem == nil
	})
	if n := in.count(1, `SELECT count(*) FROM api_keys WHERE key_id = 'copiedcopied'`); n != 0 {
		in.Errorf("%d keys of another cell's tenants", n)
	}
	must[api.Tenant](cells[0], hop.DeleteTenant.Path, operator, hop.ID{ID: owner.Tenant})
	celltest.Eventually(in, "its cell to refuse its jobs", func() bool {
		request, _ := jobOf()
		answer := ask[json.RawMessage](cells[2], hop.SubmitJobs.Path, owner, request)
		return answer.Problem != nil && answer.Problem.Code == problem.Forbidden
	})
	celltest.Eventually(in, "the revoked key to be copied", func() bool {
		return in.count(2, `SELECT count(*) FROM api_keys WHERE revoked_at IS NULL`) == 0
	})
	if got := must[api.Tenant](cells[2], hop.GetTenant.Path, operator, hop.ID{ID: owner.Tenant}); got.Deletion == nil || got.Deletion.State != api.DeletionRunning {
		in.Errorf("deletion: %+v", got.Deletion)
	}
}
