package principals_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Each item is judged by its own principal, not by those of the items beside it.
func TestPrincipalsOfClaims(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	for range 2 {
		f.Submit()
	}
	claim := calltest.ClaimOf(0)
	got := calltest.Statuses(calltest.Ask[api.ClaimResponse](f, hop.ClaimJobs.Path,
		calltest.Item(calltest.UserOf(f.Tenant, "bob"), claim), calltest.Item(f.Tenant, claim), calltest.Item(calltest.Operator(), claim), calltest.Item(calltest.Platform(), claim),
		calltest.Item(hop.Principal{}, claim), calltest.Item(hop.Principal{Kind: hop.PrincipalTenant, Tenant: "nonsense"}, claim),
		calltest.Item(hop.Principal{Kind: hop.PrincipalTenant, Tenant: tenant.Platform.String()}, claim),
		calltest.Item(f.Tenant, api.ClaimRequest{WorkerID: "w1"})))
	want := "forbidden,,forbidden,,forbidden,forbidden,forbidden,invalid_request"
	if strings.Join(got, ",") != want {
		t.Errorf("claims: %q, want %q", got, want)
	}
}

func TestPrincipalsOfSubmits(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	twice := calltest.Job()
	twice.IDs = append(twice.IDs, twice.IDs[0])
	noID := calltest.Job()
	noID.IDs[0] = "x"
	badKey := calltest.Job()
	badKey.Idempotency = &hop.Idempotency{Operation: "submit", Key: "k", Fingerprint: "00"}
	got := calltest.Statuses(calltest.Ask[json.RawMessage](f, hop.SubmitJobs.Path,
		calltest.Item(f.Tenant, calltest.Job()), calltest.Item(calltest.Platform(), calltest.Job()), calltest.Item(calltest.Operator(), calltest.Job()), calltest.Item(calltest.UserOf(f.Tenant, "bob"), calltest.Job()),
		calltest.Item(f.Tenant, twice), calltest.Item(f.Tenant, noID), calltest.Item(f.Tenant, badKey), calltest.Item(f.Tenant, hop.SubmitJobsRequest{}), calltest.Item(f.Tenant, calltest.Job())))
	want := ",forbidden,forbidden,,invalid_request,invalid_request,invalid_request,invalid_request,"
	if strings.Join(got, ",") != want {
		t.Errorf("submits: %q, want %q", got, want)
	}
}

func TestOnlyTheOperatorManages(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	id := uuid.Must(uuid.NewV7()).String()
	create := hop.WithID[api.TenantRequest]{ID: id, Value: api.TenantRequest{Name: "new"}}
	got := calltest.Statuses(calltest.Ask[api.Tenant](f, hop.CreateTenant.Path,
		calltest.Item(f.Tenant, create), calltest.Item(calltest.Platform(), create), calltest.Item(hop.Principal{}, create), calltest.Item(calltest.Operator(), create), calltest.Item(calltest.Operator(), create),
		calltest.Item(calltest.Operator(), hop.WithID[api.TenantRequest]{ID: tenant.Platform.String()}),
		calltest.Item(calltest.Operator(), hop.WithID[api.TenantRequest]{ID: uuid.NewString(), Value: api.TenantRequest{Name: "x", Plan: new("nonsense")}})))
	if want := "forbidden,forbidden,forbidden,,,invalid_request,invalid_request"; strings.Join(got, ",") != want {
		t.Errorf("creations: %q, want %q", got, want)
	}
	for _, path := range []string{
		hop.ListTenants.Path, hop.PatchTenant.Path, hop.CreateKey.Path, hop.ListKeys.Path, hop.RevokeKey.Path, hop.GetPlan.Path, hop.ListPlans.Path, hop.PutPlan.Path, hop.GetInstallation.Path, hop.ReportProcess.Path,
	} {
		for _, p := range []hop.Principal{f.Tenant, calltest.Platform(), {}} {
			result := calltest.Ask[json.RawMessage](f, path, calltest.Item(p, map[string]any{"id": id}))[0]
			if result.Status != http.StatusForbidden {
				t.Errorf("%s as %q: %d", path, p.Kind, result.Status)
			}
		}
	}
}

// What is the tenant's as a whole is not shown to a key that is bound to a user.
func TestAUserBoundKeySeesNoTenant(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	f.Submit()
	bob := calltest.UserOf(f.Tenant, "bob")
	for path, got := range map[string]int{
		hop.ListQueues.Path:  calltest.Ask[any](f, hop.ListQueues.Path, calltest.Item(bob, hop.PageRequest{}))[0].Status,
		hop.GetQueue.Path:    calltest.Ask[any](f, hop.GetQueue.Path, calltest.Item(bob, hop.Name{Name: api.DefaultQueue}))[0].Status,
		hop.ListWorkers.Path: calltest.Ask[any](f, hop.ListWorkers.Path, calltest.Item(bob, hop.PageRequest{}))[0].Status,
		hop.ListAudit.Path:   calltest.Ask[any](f, hop.ListAudit.Path, calltest.Item(bob, hop.Filtered[api.AuditFilter]{}))[0].Status,
	} {
		if got != http.StatusForbidden {
			t.Errorf("%s: %d", path, got)
		}
	}
}
