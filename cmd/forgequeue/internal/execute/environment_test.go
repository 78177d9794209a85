package execute

import (
	"slices"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// A job of no workflow has the variables too, empty: the command must not inherit those of the worker.
func TestEnvironmentNamesTheWorkflow(t *testing.T) {
	t.Parallel()
	for want, workflow := range map[string]*api.JobWorkflow{"": nil, "w1": {ID: "w1", Ref: "w1"}} {
		got := environment(&worker.RawJob{Info: worker.Info{ID: "j1", Workflow: workflow}})
		for _, name := range []string{"FORGEQUEUE_JOB_WORKFLOW=", "FORGEQUEUE_JOB_WORKFLOW_REF="} {
			if !slices.Contains(got, name+want) {
				t.Errorf("no %s%s in %q", name, want, got)
			}
		}
	}
}
