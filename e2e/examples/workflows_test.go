package examples_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

const workflowsPage = "api-docs/workflows.md"

// The page's diamond by curl completes, and its policy is kept.
func (e *examples) workflowByCurl(t *testing.T) {
	t.Parallel()
	var made api.Workflow
	output := e.script(t, block(t, workflowsPage, "## By curl", "sh", 0))
	if err := json.Unmarshal([]byte(output), &made); err != nil || made.State != api.WorkflowRunning || made.Name != "report" || made.Metadata["shop"] != "berlin" {
		t.Fatalf("%v: %s", err, output)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience(time.Minute))
	defer cancel()
	done, err := e.Client(t).WaitForWorkflow(ctx, made.ID)
	if err != nil || done.State != api.WorkflowCompleted || len(done.Jobs) != 4 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, one := range done.Jobs {
		if one.Ref == "send" && len(one.After) == 2 {
			return
		}
	}
	t.Errorf("no job send after two others: %+v", done.Jobs)
}

// The page's drawing is what the command draws.
func (e *examples) workflowByCommandLine(t *testing.T) {
	t.Parallel()
	output := e.script(t, block(t, workflowsPage, "## By the command line", "sh", 0))
	for _, want := range []string{"state     completed", "jobs      4 completed", "✓   extract  completed", "├─┐\n", "✓ │ sums ", "│ ✓ chart ", "├─┘\n", "✓   send ", "run (chart)"} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q in %s", want, output)
		}
	}
}

// The page's program prints what the page says.
func (e *examples) workflowInGo(t *testing.T) {
	t.Parallel()
	dir, call := module(t, map[string]string{"main.go": block(t, workflowsPage, "## In Go", "go", 0)})
	call("build", "-o", "report", ".")
	command := exec.CommandContext(t.Context(), filepath.Join(dir, "report"))
	command.Env = e.environment()
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, want := range []string{"extract completed [1,2,6]\n", "sum completed 9\n", "count completed 3\n", "mean completed 3\n"} {
		if !strings.Contains(string(output), want) {
			t.Errorf("no %q in %s", want, output)
		}
	}
}

// Jobs are added, a workflow is cancelled, and a failed one redriven.
func (e *examples) workflowChanges(t *testing.T) {
	t.Parallel()
	output := e.script(t, block(t, workflowsPage, "## Add, cancel, redrive", "sh", 0))
	for _, want := range []string{"jobs     1 scheduled, 2 blocked", "◌ tidy ", "run (check)"} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q in %s", want, output)
		}
	}
	output = e.script(t, block(t, workflowsPage, "## Add, cancel, redrive", "sh", 1))
	for _, want := range []string{"✗ fetch ", "⊘ check ", "it failed, as it should", "1 queued again, 0 refused"} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q in %s", want, output)
		}
	}
}
