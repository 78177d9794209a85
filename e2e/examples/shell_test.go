package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// script runs shell to its end and gives its standard output.
func (e *examples) script(t *testing.T, text string) string {
	t.Helper()
	stack.Need(t, "curl")
	stack.Need(t, "jq")
	command := exec.CommandContext(t.Context(), stack.Need(t, "sh"), "-euc", text)
	path := filepath.Dir(stack.Binary(t)) + string(filepath.ListSeparator) + os.Getenv("PATH")
	command.Env, command.Dir = e.environment("PATH="+path), t.TempDir()
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, output)
	}
	return string(output)
}

// The README's first curl answers with a finished job, the second puts one into
// the queue mine.
func (e *examples) firstJob(t *testing.T) {
	t.Parallel()
	var job api.Job
	output := e.script(t, block(t, "README.md", "## A first job", "sh", 1))
	if err := json.Unmarshal([]byte(output), &job); err != nil || job.State != api.StateCompleted {
		t.Errorf("%v: %s", err, output)
	}
	output = e.script(t, strings.ReplaceAll(block(t, "README.md", "## A first job", "sh", 2), `"mine"`, `"first"`))
	if err := json.Unmarshal([]byte(output), &job); err != nil || job.State != api.StateQueued || job.Queue != "first" {
		t.Errorf("%v: %s", err, output)
	}
}

// The protocol page's calls by hand take a job from its submit to its end.
func (e *examples) byHand(t *testing.T) {
	t.Parallel()
	output := e.script(t, block(t, "api-docs/worker-protocol.md", "## By hand", "sh", 0))
	decoder := json.NewDecoder(strings.NewReader(output))
	var submitted api.JobSummary
	var heartbeat api.HeartbeatResponse
	var outcome api.Outcome
	for _, answer := range []any{&submitted, &heartbeat, &outcome} {
		if err := decoder.Decode(answer); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	if len(heartbeat.Leases) != 1 || heartbeat.Leases[0].Status != "ok" || outcome.State != api.StateCompleted {
		t.Errorf("%s", output)
	}
	ends(t, e.Client(t), submitted.ID, api.StateCompleted, `{"hello":"Ada"}`)
}

// The page on schedules: the calls make one, submit a job of it, and show that as its run.
func (e *examples) schedules(t *testing.T) {
	t.Parallel()
	output := e.script(t, block(t, "api-docs/schedules.md", "# Schedules", "sh", 0))
	decoder := json.NewDecoder(strings.NewReader(output))
	var made api.Schedule
	var submitted api.SubmitResponse
	var runs api.Page[api.ScheduleRun]
	for _, answer := range []any{&made, &submitted, &runs} {
		if err := decoder.Decode(answer); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	if len(made.NextRuns) != api.NextRunsShown || len(runs.Items) != 1 || *runs.Items[0].JobID != submitted.ID || submitted.Type != "report.daily" {
		t.Errorf("%s", output)
	}
}

// The page's commands do what it says of them.
func (e *examples) scheduleCommands(t *testing.T) {
	t.Parallel()
	var lines []string
	for line := range strings.Lines(block(t, "api-docs/cli.md", "## Schedules", "sh", 0)) {
		// Nobody works off its jobs, and the page's example has the name.
		lines = append(lines, strings.NewReplacer("--wait", "", "nightly", "cli-nightly").Replace(line))
	}
	output := e.script(t, strings.Join(lines, "")+"forgequeue schedule delete cli-nightly; forgequeue schedule delete poll")
	for _, want := range []string{"next runs", "Europe/Berlin", "every 1m30s", "paused", "SKIPPED"} {
		if !strings.Contains(output, want) {
			t.Errorf("nothing says %q: %s", want, output)
		}
	}
}

// The page's file is applied as its commands say, and pruned.
func (e *examples) applied(t *testing.T) {
	t.Parallel()
	own := strings.NewReplacer("mail.send", "applied.send", "mail-calls", "applied-calls", "  mail:", "  applied:", "queue: mail}", "queue: applied}")
	file := own.Replace(block(t, "api-docs/apply.md", "# Configuration as a file", "yaml", 0))
	commands := strings.Replace(block(t, "api-docs/apply.md", "# Configuration as a file", "sh", 0), "    # only shows", " || echo exit $?    # only shows", 1)
	output := e.script(t, "cat >mail.yaml <<'EOF'\n"+file+"EOF\n"+commands+"forgequeue apply -f mail.yaml --dry-run && echo nothing differs\necho label: mail-team >mail.yaml\nforgequeue apply -f mail.yaml --prune\n")
	for _, want := range []string{"+ budget applied-calls\n", "exit 5\n", "nothing differs\n", "secret of webhook mail-failures", "- schedule digest\n- webhook mail-failures\n- type applied.send\n- queue applied\n- budget applied-calls\n"} {
		if !strings.Contains(output, want) {
			t.Errorf("nothing says %q: %s", want, output)
		}
	}
}

// shellWorker starts the README's fifteen lines on another queue, with another
// command unless that is empty.
func (e *examples) shellWorker(t *testing.T, url, queue, command string) *stack.Process {
	t.Helper()
	for _, name := range []string{"curl", "jq", "timeout", "mktemp"} {
		stack.Need(t, name)
	}
	text := block(t, "README.md", "## A worker in fifteen lines of shell", "sh", 0)
	if n := strings.Count(text, "\n"); n != 15 {
		t.Errorf("the fifteen lines are %d", n)
	}
	if strings.ContainsAny(text, "\t!“”‘’") || strings.Contains(text, "…") {
		t.Error("a terminal would not take the lines as they stand")
	}
	text = strings.Replace(text, `["mine"]`, `["`+queue+`"]`, 1)
	if command != "" {
		_, rest, _ := strings.Cut(text, "\n")
		text = "set -- " + command + "\n" + rest
	}
	file := write(t, t.TempDir(), "worker.sh", text)
	return e.run(t, e.environment("FORGEQUEUE_URL="+url), "sh", file)
}

// The fifteen lines complete jobs, also when the answer to a finish is lost, and
// fail those whose command fails.
func (e *examples) shell(t *testing.T) {
	t.Parallel()
	c, queue := e.Client(t), "shell"
	url, repeated := e.losing(t)
	worker := e.shellWorker(t, url, queue, "")
	id := stack.Submit(t, c, once("greet", queue, `{"name":"Ada"}`))
	ends(t, c, id, api.StateCompleted, `{"hello":"Ada"}`)
	hard := stack.Submit(t, c, once("greet", queue, `{"name":"a\\nb \"c\" $HOME `+"`x`"+` é"}`))
	ends(t, c, hard, api.StateCompleted, `{"hello":"a\\nb \"c\" $HOME `+"`x`"+` é"}`)
	failed := ends(t, c, stack.Submit(t, c, once("greet", queue, `"no object"`)), api.ReasonExhausted, "null")
	if failed.LastError == nil || failed.LastError.Type != "exit_5" || !strings.Contains(failed.LastError.Message, "Cannot index string") {
		t.Errorf("the failure: %+v", failed.LastError)
	}
	stops(t, worker)
	saidGoodbye(t, c, queue)
	repeated(2)
}

// SIGTERM while a command runs: it is waited for, and its job completed.
func (e *examples) shellStops(t *testing.T) {
	t.Parallel()
	c, queue := e.Client(t), "shell-stops"
	dir := t.TempDir()
	handle := write(t, dir, "handle.sh", `touch "$1/started"; until [ -e "$1/go" ]; do sleep 0.05; done; echo done`)
	worker := e.shellWorker(t, e.Gateway, queue, `sh "`+handle+`" "`+dir+`"`)
	id := stack.Submit(t, c, once("slow", queue, "null"))
	stack.Eventually(t, time.Minute, "the command has started", func() bool {
		started, err := filepath.Glob(filepath.Join(dir, "started"))
		return err == nil && len(started) == 1
	})
	worker.Signal(15)
	write(t, dir, "go", "")
	if code := worker.Wait(t, time.Minute); code != 0 {
		t.Errorf("the worker ended with %d\n%s", code, worker.Output())
	}
	ends(t, c, id, api.StateCompleted, `"done\n"`)
}

// A command that would outlast its lease is ended before that, and its job failed
// by its own worker.
func (e *examples) shellKeepsToTheLease(t *testing.T) {
	t.Parallel()
	queue := "shell-lease"
	c := e.queue(t, queue, stack.Patience(5*time.Second)) // a fifth of it is left to say so
	worker := e.shellWorker(t, e.Gateway, queue, "sleep 3600")
	failed := ends(t, c, stack.Submit(t, c, once("slow", queue, "null")), api.ReasonExhausted, "null")
	if failed.LastError == nil || failed.LastError.Type != "exit_124" {
		t.Errorf("the failure: %+v", failed.LastError)
	}
	stops(t, worker)
}

// The README's command line: each command ends well, and its worker works.
func (e *examples) commandLine(t *testing.T) {
	t.Parallel()
	var short, long []string
	for line := range strings.Lines(block(t, "README.md", "## The command line", "sh", 0)) {
		switch {
		case strings.Contains(line, "worker run"):
			long = append(long, line)
		case strings.HasPrefix(line, "forgequeue "):
			short = append(short, line)
		}
	}
	if len(short) < 3 || len(long) != 1 {
		t.Fatalf("%q %q", short, long)
	}
	output := e.script(t, strings.Join(short, ""))
	if !strings.Contains(output, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824") {
		t.Errorf("no result to be seen: %s", output)
	}
	c, queue := e.Client(t), "command-line"
	_, words, _ := strings.Cut(strings.Replace(strings.TrimSpace(long[0]), "--queue mine", "--queue "+queue, 1), " ")
	worker := e.run(t, e.environment(), "sh", "-c", `exec "$0" `+words, stack.Binary(t))
	ends(t, c, stack.Submit(t, c, once("greet", queue, `{"name":"Ada"}`)), api.StateCompleted, `{"hello":"Ada"}`)
	stops(t, worker)
}
