package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// graph is a workflow of so many jobs that each come after so many refs.
func graph(jobs, refs int) string {
	after := strings.TrimSuffix(strings.Repeat(`"",`, refs), ",")
	list := make([]string, jobs)
	for i := range list {
		list[i] = fmt.Sprintf(`{"ref":"r%d","type":"t","after":[%s]}`, i, after)
	}
	return `{"jobs":[` + strings.Join(list, ",") + `]}`
}

// Too many parents of a job are counted, and so are too many of all jobs.
func TestTooManyParents(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.key("submit")
	for _, test := range []struct{ path, body, field, message string }{
		{"/v1/workflows", graph(1, 2*api.MaxWorkflowAfter), "jobs[0].after", "must have at most 1000 entries"},
		{"/v1/workflows", graph(11, api.MaxWorkflowAfter), "jobs", "must come after at most 10000 jobs in total"},
	} {
		got := d.do("POST", test.path, key, test.body)
		found := false
		for _, one := range got.refused(t, 400, problem.InvalidRequest).Errors {
			found = found || one.Field == test.field && one.Message == test.message
		}
		if !found {
			t.Errorf("%s: no error for %s: %.300s", test.path, test.field, got.body)
		}
	}
}

// A million refs in a request are not kept until it is refused.
func TestAMillionRefs(t *testing.T) {
	t.Parallel()
	var workflow api.WorkflowRequest
	if err := request.DecodeJSON([]byte(graph(api.MaxBatchJobs, api.MaxWorkflowAfter)), &workflow); err != nil {
		t.Fatal(err)
	}
	edges := 0
	for i := range workflow.Jobs {
		edges += len(workflow.Jobs[i].After)
	}
	if len(workflow.Jobs) != api.MaxBatchJobs || edges <= api.MaxEdges || edges > api.MaxEdges+api.MaxWorkflowAfter {
		t.Errorf("%d jobs after %d", len(workflow.Jobs), edges)
	}
}
