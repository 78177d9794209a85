package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/faultproxy"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// What the README and api-docs show is run as it stands there, against the real
// program with its sample worker.
func TestExamples(t *testing.T) {
	t.Parallel()
	e := &examples{Stack: stack.Up(t, stack.Folder(t))}
	t.Run("first job", e.firstJob)
	t.Run("by hand", e.byHand)
	t.Run("shell", e.shell)
	t.Run("shell stops in mid-job", e.shellStops)
	t.Run("shell keeps to the lease", e.shellKeepsToTheLease)
	t.Run("go", e.goWorker)
	t.Run("command line", e.commandLine)
	t.Run("workflow by curl", e.workflowByCurl)
	t.Run("workflow by the command line", e.workflowByCommandLine)
	t.Run("workflow in Go", e.workflowInGo)
	t.Run("workflow changes", e.workflowChanges)
	t.Run("approval by link", e.approvalByLink)
	t.Run("agent and parts", e.agentAndParts)
	t.Run("schedules", e.schedules)
	t.Run("schedule commands", e.scheduleCommands)
	t.Run("apply", e.applied)
	for name, command := range map[string][]string{
		"python": {"python3", "worker.py"},
		"node":   {"node", "worker.mjs"},
	} {
		t.Run(name, func(t *testing.T) { e.oneFile(t, name, command...) })
	}
}

type examples struct{ *stack.Stack }

// document reads a file of the repository.
func document(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(stack.Repository(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// block gives the nth fenced block, from 0, of a language under a heading.
func block(t *testing.T, file, heading, language string, n int) string {
	t.Helper()
	_, section, found := strings.Cut("\n"+document(t, file), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", file, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "\n```"+language+"\n")
	if len(blocks) < n+2 {
		t.Fatalf("%s has %d blocks of %s under %q", file, len(blocks)-1, language, heading)
	}
	code, _, found := strings.Cut(blocks[n+1], "\n```")
	if !found {
		t.Fatalf("%s: a block under %q does not end", file, heading)
	}
	return code + "\n"
}

// write makes a file in a folder of the test's own.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// environment tells a program where to call, and as whom.
func (e *examples) environment(more ...string) []string {
	return append(append(os.Environ(), "FORGEQUEUE_URL="+e.Gateway, "FORGEQUEUE_API_KEY="+e.APIKey), more...)
}

// run starts a worker. It ends with the test at the latest.
func (e *examples) run(t *testing.T, environment []string, name string, args ...string) *stack.Process {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), stack.Need(t, name), args...)
	command.Env, command.Dir = environment, t.TempDir()
	return stack.StartCommand(t, command)
}

// queue makes a queue with leases of a length.
func (e *examples) queue(t *testing.T, name string, lease time.Duration) *client.Client {
	t.Helper()
	c, ms := e.Client(t), lease.Milliseconds()
	if _, err := c.PutQueue(t.Context(), name, api.QueueRequest{VisibilityTimeoutMS: &ms}); err != nil {
		t.Fatal(err)
	}
	return c
}

// once is a job that may be executed one time.
func once(jobType, queue, payload string) api.SubmitRequest {
	return api.SubmitRequest{Type: jobType, Queue: queue, Payload: []byte(payload), MaxAttempts: new(1)}
}

// ends waits for a job's end and checks how it ended: "completed" or the reason of
// a dead letter, with a result.
func ends(t *testing.T, c *client.Client, id, how, result string) api.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience(time.Minute))
	defer cancel()
	job, err := c.Wait(ctx, id)
	if err != nil {
		t.Fatalf("job %s has not ended: %v", id, err)
	}
	ended := job.State
	if job.DeadReason != nil {
		ended = *job.DeadReason
	}
	if ended != how || string(job.Result) != result || job.Attempt != 1 {
		t.Errorf("the %s ended as %s at attempt %d, result %s, error %+v; want %s with %s",
			job.Type, ended, job.Attempt, job.Result, job.LastError, how, result)
	}
	return job
}

// running waits until a job is held by a worker.
func running(t *testing.T, c *client.Client, id string) {
	t.Helper()
	stack.Eventually(t, time.Minute, "the job is running", func() bool { return stack.Get(t, c, id).State == api.StateRunning })
}

// stops tells a worker to stop and checks that it ends in good order.
func stops(t *testing.T, worker *stack.Process) {
	t.Helper()
	if code := worker.Stop(t); code != 0 {
		t.Errorf("the worker ended with %d\n%s", code, worker.Output())
	}
}

// saidGoodbye checks that no worker of the queue is listed any more.
func saidGoodbye(t *testing.T, c *client.Client, queue string) {
	t.Helper()
	page, err := c.Workers(t.Context(), client.PageRequest{Size: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, worker := range page.Items {
		if slices.Contains(worker.Queues, queue) {
			t.Errorf("%s is still listed, %s", worker.WorkerID, worker.Status)
		}
	}
}

// losing gives the stack's address through a proxy that loses the answer to the
// first complete. For a worker that has ended, repeated checks that it asked again
// and was answered: one complete more than there are completed jobs.
func (e *examples) losing(t *testing.T) (url string, repeated func(completed int)) {
	t.Helper()
	faults := faultproxy.NewFaults(1)
	faults.Lose(1, 1)
	proxy, err := faultproxy.HTTP(strings.TrimPrefix(e.Gateway, "http://"), faults, func(_, path string) bool {
		return strings.HasSuffix(path, "/complete")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return "http://" + proxy.Address(), func(completed int) {
		t.Helper()
		if answered := faults.Seen()["POST complete"]; faults.Total() != 1 || answered != completed+1 {
			t.Errorf("%d jobs were completed: %d completes were answered, and %d of the answers lost", completed, answered, faults.Total())
		}
	}
}
