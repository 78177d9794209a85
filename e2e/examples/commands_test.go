package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// What stands in the help of commands for what only a running server can give.
const (
	commandID  = "0199f0a4-7c1e-7000-8000-5d2c6f1e9a10"
	otherID    = "0199f0a4-7c1e-7000-8000-5d2c6f1e9a11"
	commandKey = "8y2k4m6n8p0q1r3s"
)

// notRun are the examples that need an installation of their own, by their command; why they are not run here.
var notRun = map[string]string{
	"up":               "it would use the folder of this machine's user: tests of up run it",
	"core":             "it is a service with settings of its own: every cluster of these tests runs it",
	"core cells":       "it needs several databases: tests of cells run it",
	"core health":      "it needs a core's own settings: tests of the container's health check run it",
	"core recount":     "all cores must be stopped: tests of recount run it",
	"core tenant move": "it needs two cells: tests of the move run it",
	"gateway":          "it is a service with settings of its own: every cluster of these tests runs it",
	"gateway health":   "it needs a gateway's own settings: tests of the container's health check run it",
	"open":             "it opens a browser: tests of the command run it",
}

// refused are the answers to examples whose rows are not there.
var refused = map[string]string{"relay retry": "are not failed rows", "relay discard": "are not failed rows"}

// keepsRunning are commands that run until they are stopped.
var keepsRunning = map[string]bool{"worker run": true, "worker sample": true, "relay": true}

// Every example of every command's help does what it says, on a running server.
func TestExamplesOfEveryHelp(t *testing.T) {
	t.Parallel()
	stack.Need(t, "jq")
	e := &commandExamples{examples: &examples{Stack: stack.Up(t, stack.Folder(t))}}
	e.c = e.Client(t)
	worker := e.run(t, e.environment(), stack.Binary(t), "worker", "run", "-q", "default", "-q", "nightly", "--", "sh", "-c", "cat >/dev/null")
	t.Cleanup(func() { worker.Stop(t) })
	listed := regexp.MustCompile("(?m)^- `([a-z -]+?)(?: [A-Z[<-].*)?`: ").FindAllStringSubmatch(document(t, "api-docs/commands.md"), -1)
	seen := map[string]bool{}
	for _, line := range listed {
		path := line[1]
		for _, example := range e.help(t, path) {
			if seen[example] {
				continue
			}
			seen[example] = true
			t.Run(example, func(t *testing.T) { e.runExample(t, path, example) })
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d examples", len(seen))
	}
}

type commandExamples struct {
	*examples
	c *client.Client
}

// help gives the examples of a command's help.
func (e *commandExamples) help(t *testing.T, path string) (lines []string) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), stack.Binary(t), append(strings.Fields(path), "--help")...).Output()
	if err != nil {
		t.Fatalf("%s --help: %v", path, err)
	}
	_, block, found := strings.Cut(string(text), "\nExamples:\n")
	block, _, _ = strings.Cut(block, "\n\n")
	if !found && !strings.Contains(string(text), "\nAvailable Commands:\n") {
		t.Errorf("%s --help has no examples:\n%s", path, text)
	}
	if !found { // of its commands alone
		return nil
	}
	for line := range strings.Lines(block) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func (e *commandExamples) runExample(t *testing.T, path, example string) {
	t.Helper()
	if why := notRun[path]; why != "" && strings.HasPrefix(example, "forgequeue "+path) {
		t.Log("not run: " + why)
		return
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"order.json": `{"order":17}`, "jobs.jsonl": "{\"type\":\"import\",\"payload\":1}\n{\"type\":\"import\"}\n", "mail.schema.json": `{"type":"object"}`,
		"report.json": `{"name":"report","jobs":[{"ref":"a","type":"extract"},{"ref":"b","type":"send","after":["a"]}]}`,
		"prod.key":    e.APIKey, "prod.operator": e.OperatorKey, "thumbnail.sh": "#!/bin/sh\ncat\n", "mail.py": "",
		"mail.yaml": "label: mail-team\nqueues:\n  outgoing: {max_running: 5}\n",
	} {
		write(t, dir, name, content)
	}
	if err := os.Chmod(filepath.Join(dir, "thumbnail.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "secrets", "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience(time.Minute))
	defer cancel()
	stays := keepsRunning[path] && (example == "forgequeue "+path || strings.HasPrefix(example, "forgequeue "+path+" -"))
	if stays {
		example = "exec " + example
	}
	text := e.real(t, path, example)
	command := exec.CommandContext(ctx, stack.Need(t, "sh"), "-euc", text)
	command.Dir = dir
	command.Env = e.environment("FORGEQUEUE_OPERATOR_KEY="+e.OperatorKey, "HOME="+dir, "XDG_CONFIG_HOME="+dir, "FORGEQUEUE_JOB_ID="+commandID,
		"PATH="+filepath.Dir(stack.Binary(t))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if stays {
		process := stack.StartCommand(t, command)
		<-time.After(stack.Patience(time.Second))
		if code := process.Stop(t); code != 0 {
			t.Errorf("%s\nended with %d\n%s", text, code, process.Output())
		}
		return
	}
	command.WaitDelay = time.Second // of the shell's children, which have its output too
	output, err := command.CombinedOutput()
	if refused[path] != "" && strings.Contains(string(output), refused[path]) {
		return
	}
	if err != nil {
		t.Errorf("%s\n%v\n%s", text, err, output)
	}
}

// real puts what exists in the place of what stands for it, after making it.
func (e *commandExamples) real(t *testing.T, path, example string) string {
	t.Helper()
	ctx := t.Context()
	id, key := commandID, ""
	noun, verb, _ := strings.Cut(path, " ")
	switch noun {
	case "job":
		switch verb {
		case "delete", "rerun", "watch", "logs":
			id = e.ended(t, false)
		case "redrive":
			id = e.ended(t, true)
		default:
			id = stack.Submit(t, e.c, api.SubmitRequest{Type: "x", Queue: "held"})
		}
	case "submit":
		id = e.ended(t, false)
	case "dead-letter":
		id = e.ended(t, true)
	case "redrive":
		begun, err := e.c.RedriveMatching(ctx, api.DeadLetterFilter{Queue: "held"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		id = begun.ID
	case "bulk": // an action on nothing
		begun, err := e.c.Bulk(ctx, api.BulkRequest{Action: api.BulkRunNow, Filter: api.BulkFilter{Queue: new("nothing")}})
		if err != nil {
			t.Fatal(err)
		}
		id = begun.ID
	case "workflow":
		id = e.workflowWith(t, verb)
	case "tenant", "key":
		tenant, err := e.operator(t).CreateTenant(ctx, api.TenantRequest{Name: "example"})
		if err != nil {
			t.Fatal(err)
		}
		made, err := e.c.CreateOwnKey(ctx, api.KeyRequest{Scopes: []string{api.ScopeRead}})
		if err != nil {
			t.Fatal(err)
		}
		id, key = tenant.ID, made.KeyID
	case "type", "schedule", "webhook", "queue", "budget", "profile", "worker":
		e.named(t, noun, verb)
	}
	text := strings.NewReplacer(commandID, id, otherID, e.otherParent(t, example), commandKey, key, `"$FORGEQUEUE_JOB_ID"`, id, `"$ID"`, id,
		"DATABASE_URL=postgres://… REDIS_URL=redis://…", "DATABASE_URL='"+e.DatabaseURL+"' REDIS_URL='"+e.Redis.URL+"'",
		"postgres://localhost/shop", "'"+e.DatabaseURL+"'").Replace(example)
	switch path {
	case "relay", "relay migrate", "relay failed", "relay retry", "relay discard", "relay status":
		text = "export FORGEQUEUE_RELAY_DATABASE_URL='" + e.DatabaseURL + "'; forgequeue relay migrate; " + text
	case "worker health":
		text = "forgequeue worker sample >/dev/null 2>&1 & until " + text + "; do sleep 0.1; done; kill $!; wait $!"
	case "profile add":
		text = `printf %s "$FORGEQUEUE_API_KEY" | ` + text
	case "profile use", "profile delete":
		text = "forgequeue profile add production --url " + e.Gateway + " --key-file prod.key && " + text
	case "core verify", "core migrate":
		text = "DATABASE_URL='" + e.DatabaseURL + "' " + text
	}
	return text
}

// otherParent makes another job, where an example names two.
func (e *commandExamples) otherParent(t *testing.T, example string) string {
	t.Helper()
	if !strings.Contains(example, otherID) {
		return ""
	}
	return e.ended(t, false)
}

func (e *commandExamples) operator(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: e.Gateway, APIKey: e.OperatorKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// ended makes a job that has completed, or is dead.
func (e *commandExamples) ended(t *testing.T, dead bool) string {
	t.Helper()
	if !dead { // by the worker, which also ends what runs it again
		id := stack.Submit(t, e.c, api.SubmitRequest{Type: "x"})
		ends(t, e.c, id, api.StateCompleted, "null")
		return id
	}
	stack.Submit(t, e.c, api.SubmitRequest{Type: "x", Queue: "dead"})
	claimed := stack.ClaimOne(t, e.c, "examples", "dead")
	if _, err := e.c.Fail(t.Context(), claimed.ID, api.FailRequest{LeaseToken: claimed.LeaseToken, Permanent: true}); err != nil {
		t.Fatal(err)
	}
	return claimed.ID
}

// workflowWith makes a workflow that a command can change: one that waits, or one that has failed.
func (e *commandExamples) workflowWith(t *testing.T, verb string) string {
	t.Helper()
	made, err := e.c.SubmitWorkflow(t.Context(), client.Workflow().Add("extract", api.SubmitRequest{Type: "x", Queue: "flow"}))
	if err != nil {
		t.Fatal(err)
	}
	if verb == "redrive" {
		claimed := stack.ClaimOne(t, e.c, "examples", "flow")
		if _, err := e.c.Fail(t.Context(), claimed.ID, api.FailRequest{LeaseToken: claimed.LeaseToken, Permanent: true}); err != nil {
			t.Fatal(err)
		}
	}
	return made.ID
}

// named makes what the examples name, if it is not there.
func (e *commandExamples) named(t *testing.T, noun, verb string) {
	t.Helper()
	if verb == "set" || verb == "" {
		return
	}
	var err error
	switch noun {
	case "type":
		_, err = e.c.PutType(t.Context(), "report.send", api.JobTypeRequest{Description: "Sends a report."})
	case "schedule":
		_, err = e.c.PutSchedule(t.Context(), "nightly-report", api.ScheduleRequest{Cron: new("@yearly"), Job: api.ScheduleJob{Type: "x", Queue: "held"}})
	case "webhook":
		_, err = e.c.PutWebhook(t.Context(), "billing", api.WebhookRequest{URL: "https://example.com/hooks", Events: []string{api.EventJobCompleted}})
	case "budget":
		_, err = e.c.PutBudget(t.Context(), "openai", api.BudgetRequest{Unit: "tokens", Amount: 1000, PerMS: new(int64(60_000))})
	case "queue":
		request := api.QueueRequest{}
		if verb == "probe" {
			request = api.QueueRequest{Mode: new(api.ModePush), Push: &api.PushRequest{URL: "https://example.com/jobs"}}
		}
		_, err = e.c.PutQueue(t.Context(), "mail", request)
	}
	if err != nil {
		t.Fatal(err)
	}
}
