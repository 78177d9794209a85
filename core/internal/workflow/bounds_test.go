package workflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A page reads the states of about 10,000 jobs at most, whatever the filter finds: it is short, or empty,
// and the next one goes on.
func TestAPageOfLargeWorkflowsIsShort(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`INSERT INTO workflows SELECT gen_random_uuid(), $1, NULL, 'large', '{}', now() FROM generate_series(1, 25)`, f.Tenant)
	f.Exec(`INSERT INTO workflow_jobs SELECT id, 'r' || n, gen_random_uuid() FROM workflows, generate_series(1, 1000) AS n`)
	read := func(filter api.WorkflowFilter, size int) (sizes []int) {
		t.Helper()
		token, seen := "", map[string]bool{}
		for len(sizes) < 100 {
			page, err := f.Store.Workflows.ListWorkflows(t.Context(), f.Tenant, "", filter, size, token)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range page.Items {
				if seen[one.ID] {
					t.Errorf("workflow %s is listed twice", one.ID)
				}
				seen[one.ID] = true
			}
			sizes = append(sizes, len(page.Items))
			if page.NextPageToken == nil {
				return sizes
			}
			token = *page.NextPageToken
		}
		t.Fatalf("no end: %v", sizes)
		return nil
	}
	if sizes := read(api.WorkflowFilter{}, 50); !slices.Equal(sizes, []int{10, 10, 5}) {
		t.Errorf("pages of 50: %v", sizes)
	}
	if sizes := read(api.WorkflowFilter{Name: "large"}, 4); !slices.Equal(sizes, []int{4, 4, 4, 4, 4, 4, 1}) {
		t.Errorf("pages of 4: %v", sizes)
	}
	if sizes := read(api.WorkflowFilter{State: api.WorkflowRunning}, 50); !slices.Equal(sizes, []int{0, 0, 0}) {
		t.Errorf("pages of a state that none has: %v", sizes)
	}
	f.Exec(`DELETE FROM workflows WHERE id NOT IN (SELECT id FROM workflows LIMIT 2)`)
	f.Exec(`INSERT INTO workflow_jobs SELECT id, 'more' || n, gen_random_uuid() FROM workflows, generate_series(1, 9500) AS n`)
	if sizes := read(api.WorkflowFilter{}, 50); !slices.Equal(sizes, []int{1, 1, 0}) {
		t.Errorf("pages of workflows that are too large for one: %v", sizes)
	}
}

// The edges of a workflow have a bound: its answer would be of any size otherwise.
func TestAWorkflowHasABoundOnItsEdges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := newWorkflow()
	for i := range 20 {
		made.Refs = append(made.Refs, fmt.Sprint("r", i))
	}
	f.mustSubmit(f.submission(made, none))
	const free = 10
	f.Exec(`INSERT INTO dependencies (tenant_id, parent_id, child_id, on_failed, redrives, resolved_at)
		SELECT $1::uuid, gen_random_uuid(), job_id, 'run', 0, now() FROM workflow_jobs, generate_series(1, $2) WHERE ref <> 'r0'
		UNION ALL SELECT $1::uuid, gen_random_uuid(), job_id, 'run', 0, now() FROM workflow_jobs, generate_series(1, $3) WHERE ref = 'r0'`,
		f.Tenant, 5000, api.MaxWorkflowEdges-free-19*5000)
	add := func(ref string, parents int) submit.Submission {
		return f.submission(&workflow.New{ID: made.ID, Add: true, Refs: []string{ref}}, func(int) []string { return made.Refs[:parents] })
	}
	refused := f.TrySubmit(add("more", free+1))[0].Problem
	if refused == nil || !strings.Contains(refused.Error(), "100001 entries of after") {
		t.Errorf("beyond the bound: %+v", refused)
	}
	f.mustSubmit(add("most", free))
	if detail, err := f.Store.Workflows.WorkflowDetail(t.Context(), f.Tenant, "", made.ID); err != nil || len(detail.Jobs) != 21 {
		t.Errorf("%d jobs, %v", len(detail.Jobs), err)
	}
}
