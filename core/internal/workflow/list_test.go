package workflow_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/api"
)

// A workflow without a user or a name matches no filter by one; the list is not an error.
func TestFiltersOfWorkflowsWithoutUserAndName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bare, named := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	f.Exec(`INSERT INTO workflows (id, tenant_id, user_id, name, metadata, created_at)
		VALUES ($1, $3, NULL, '', '{}', now()), ($2, $3, 'alice', 'nightly', '{}', now())`, bare, named, f.Tenant)
	f.Exec(`INSERT INTO workflow_jobs SELECT id, 'a', gen_random_uuid() FROM workflows`)
	for _, c := range []struct {
		user   string
		filter api.WorkflowFilter
		want   int
	}{
		{"", api.WorkflowFilter{}, 2},
		{"alice", api.WorkflowFilter{}, 1},
		{"bob", api.WorkflowFilter{}, 0},
		{"", api.WorkflowFilter{Name: "nightly"}, 1},
		{"", api.WorkflowFilter{Name: "other"}, 0},
		{"alice", api.WorkflowFilter{Name: "nightly"}, 1},
		{"", api.WorkflowFilter{State: api.WorkflowRunning}, 0},
	} {
		page, err := f.Store.Workflows.ListWorkflows(t.Context(), f.Tenant, c.user, c.filter, 50, "")
		if err != nil {
			t.Errorf("user %q, %+v: %v", c.user, c.filter, err)
			continue
		}
		if len(page.Items) != c.want {
			t.Errorf("user %q, %+v: %d workflows, want %d", c.user, c.filter, len(page.Items), c.want)
		}
	}
}
