package administration_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	key := f.Tenant
	key.KeyID = "the-key"
	id := f.Bury("")
	calltest.One[api.JobSummary](f, hop.RedriveJob.Path, key, hop.ID{ID: id})
	weight := 2
	calltest.One[api.Tenant](f, hop.PatchTenant.Path, calltest.Operator(), hop.WithID[api.TenantPatch]{ID: key.Tenant, Value: api.TenantPatch{Weight: &weight}})
	calltest.One[api.Plan](f, hop.PutPlan.Path, calltest.Operator(), hop.Put[api.PlanRequest]{Name: "p"})
	own := calltest.One[api.Page[api.AuditEntry]](f, hop.ListAudit.Path, key, hop.Filtered[api.AuditFilter]{})
	if len(own.Items) != 2 || own.Items[0].Action != api.AuditTenantPatch || own.Items[0].Actor.Kind != "operator" ||
		own.Items[1].Action != api.AuditRedrive || *own.Items[1].Object != id || *own.Items[1].Actor.KeyID != "the-key" {
		t.Errorf("own entries %+v", own)
	}
	for _, test := range []struct {
		who    hop.Principal
		filter api.AuditFilter
		want   int
	}{
		{calltest.Operator(), api.AuditFilter{}, 3},
		{calltest.Operator(), api.AuditFilter{Tenant: key.Tenant}, 2},
		{calltest.Operator(), api.AuditFilter{Action: api.AuditPlanPut}, 1},
		{f.NewTenant(), api.AuditFilter{Tenant: key.Tenant}, 0},
		{key, api.AuditFilter{Before: &api.Time{Time: time.Unix(0, 0)}}, 0},
	} {
		if got := calltest.One[api.Page[api.AuditEntry]](f, hop.ListAudit.Path, test.who, hop.Filtered[api.AuditFilter]{Filter: test.filter}); len(got.Items) != test.want {
			t.Errorf("%+v %+v: %d entries, want %d", test.who, test.filter, len(got.Items), test.want)
		}
	}
	for _, who := range []hop.Principal{calltest.UserOf(key, "bob"), calltest.Platform()} {
		if got := calltest.Ask[api.Page[api.AuditEntry]](f, hop.ListAudit.Path, calltest.Item(who, hop.Filtered[api.AuditFilter]{}))[0]; got.Problem == nil || got.Problem.Code != problem.Forbidden {
			t.Errorf("%+v: %+v", who, got)
		}
	}
}
