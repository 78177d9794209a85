package examples_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/e2e/contract"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// What stands in examples for what only a running server can give; the generator
// has the same.
const (
	documentedJob     = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"
	documentedTenant  = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002"
	documentedRedrive = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0003"
	documentedKey     = "8y2k4m6n8p0q1r3s"
	documentedWorker  = "worker-1"
	documentedQueue   = `"default"`
	// Beside "nightly" as a text of its own it is nothing in the examples.
	documentedSchedule = `"nightly"`
	documentedWebhook  = `"billing"`
	documentedType     = `"mail.send"`
	documentedBudget   = `"openai"`
)

// needs says what has to be there for an operation's examples to work, where a job
// that waits will not do. An operation that fails here for want of something: add it.
var needs = map[string]string{
	"completeJob": "leased", "failJob": "leased", "snoozeJob": "leased", "waitJob": "leased", "appendOutput": "leased", "releaseJob": "leased", "reportOutcomes": "leased", "heartbeat": "leased", "sendHeartbeat": "leased",
	"redriveJob": "dead", "rerunJob": "dead", "deleteJob": "dead", "redriveDeadLetters": "dead", "discardDeadLetters": "dead",
	"groupDeadLetters": "dead", "getRedrive": "redrive", "cancelRedrive": "redrive", "getBulk": "bulk", "cancelBulk": "bulk", "putQueue": "queue", "deleteTenant": "tenant", "deleteQueue": "queue",
	"getSchedule": "schedule", "deleteSchedule": "schedule", "pauseSchedule": "schedule", "resumeSchedule": "schedule",
	"getWorkflow": "workflow", "cancelWorkflow": "workflow", "addToWorkflow": "workflow", "redriveWorkflow": "workflow",
	"triggerSchedule": "schedule", "listScheduleRuns": "schedule", "putSchedule": "schedule",
	"probeQueue": "push", "queueProbes": "push", "probeWebhook": "webhook", "webhookProbes": "webhook",
	"getWebhook": "webhook", "rotateWebhookSecret": "webhook", "testWebhook": "webhook", "deleteWebhook": "webhook",
	"getBudget": "budget", "deleteBudget": "budget", "readBudgetUsage": "budget", "getBudgetUsage": "budget", "putBudget": "queue",
	"getType": "type", "listTypeVersions": "type", "deleteType": "type", "getSignalLink": "signal link", "useSignalLink": "signal link",
	// of core alone
	"submitJobs": "nothing", "createTenant": "nothing",
}

// Every example of both documents is sent to a running stack, and every operation
// without a body is called: they work, and are answered as the documents say.
func TestDocumentedExamplesWork(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	e := &documented{t: t, cluster: c, tenant: c.NewTenant(t, "documented")}
	e.client = c.Client(t, e.tenant.Key)
	stack.Submit(t, e.client, api.SubmitRequest{Type: "x"}) // now there is a queue "default"
	for _, name := range []string{"gateway", "core"} {
		document, err := contract.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		e.document, e.core = document, name == "core"
		sent := 0
		for _, path := range document.Paths.Keys() {
			for method, op := range document.Paths.Value(path).Operations() {
				if op.OperationID == "readDirectory" { // another cell's, and this installation has one: core/app reads it
					continue
				}
				for title, body := range examplesOf(op) {
					sent++
					t.Run(name+" "+op.OperationID+" "+title, func(t *testing.T) { e.send(t, method, path, op, body) })
				}
			}
		}
		if sent < 30 {
			t.Errorf("%s: only %d examples", name, sent)
		}
	}
}

type documented struct {
	t        *testing.T
	cluster  *stack.Cluster
	tenant   stack.Tenant
	client   *client.Client
	document *contract.Document
	core     bool
	queues   int
}

// examplesOf gives the bodies to send, by title; nil is none.
func examplesOf(op *openapi3.Operation) map[string]any {
	if op.RequestBody == nil {
		return map[string]any{"": nil}
	}
	bodies := map[string]any{}
	for title, example := range op.RequestBody.Value.Content["application/json"].Examples {
		bodies[title] = example.Value.Value
	}
	return bodies
}

// send sends one example with real values, and judges the answer.
func (e *documented) send(t *testing.T, method, path string, op *openapi3.Operation, example any) {
	t.Helper()
	values := e.values(t, op)
	var body []byte
	if example != nil {
		text, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		body = []byte(values.Replace(string(text)))
	}
	for _, p := range op.Parameters {
		if p.Value.In == "path" {
			value, err := json.Marshal(p.Value.Example) // in quotes, as a body has it
			if err != nil {
				t.Fatal(err)
			}
			path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", strings.Trim(values.Replace(string(value)), `"`))
		}
	}
	request := e.request(t, method, path, op, body)
	response, err := e.http().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.Header.Get("Content-Type") == "text/event-stream" { // it goes on for minutes
		isStream(t, response)
		return
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode >= 400 {
		t.Errorf("%s %s %s: %d %s", method, path, body, response.StatusCode, answer)
	}
	if err := e.document.Check(t.Context(), contract.Exchange{
		Request: request, Body: body, Status: response.StatusCode, Header: response.Header, Answer: answer,
	}); err != nil {
		t.Errorf("%s %s %s: %d %.500s: %v", method, path, body, response.StatusCode, answer, err)
	}
	var told struct {
		Results []struct{ Status int } `json:"results"`
	}
	_ = json.Unmarshal(answer, &told) // most have no results
	for _, result := range told.Results {
		if result.Status >= 400 {
			t.Errorf("%s %s: %s", path, body, answer)
		}
	}
}

// http follows no redirects, and leaves core's answers to the check above.
func (e *documented) http() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (e *documented) request(t *testing.T, method, path string, op *openapi3.Operation, body []byte) *http.Request {
	t.Helper()
	base := e.cluster.Gateways[0].URL
	if e.core {
		base = e.cluster.Cores[0].URL
	}
	request, err := http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	switch {
	case e.core:
		request.Header.Set(identity.Header, identity.Sign([]byte(stack.HopSecret), method, path, body, time.Now()))
	case op.Tags[0] == "Admin":
		request.Header.Set("Authorization", "Bearer "+stack.Operator)
	default:
		request.Header.Set("Authorization", "Bearer "+e.tenant.Key)
	}
	return request
}

// isStream reads the first event of a stream.
func isStream(t *testing.T, response *http.Response) {
	t.Helper()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var job api.Job
			if err := json.Unmarshal([]byte(data), &job); err != nil || job.ID == "" {
				t.Errorf("%s: %v", data, err)
			}
			return
		}
	}
	t.Errorf("status %d, and no event", response.StatusCode)
}

// values makes what an operation needs, and puts it in the examples' places.
func (e *documented) values(t *testing.T, op *openapi3.Operation) *strings.Replacer {
	t.Helper()
	var job, token, redrive, link string
	tenant := e.tenant.ID
	key := e.cluster.NewKey(t, e.tenant, time.Now().Add(time.Hour))
	id := strings.Split(key, "_")[2]
	e.queues++
	queue, named := fmt.Sprintf("q%d", e.queues), documentedQueue
	switch needs[op.OperationID] {
	case "nothing":
		job, tenant = newID(t), newID(t)
	case "leased", "dead":
		stack.Submit(t, e.client, api.SubmitRequest{Type: "x", Queue: queue})
		claimed := stack.ClaimOne(t, e.client, documentedWorker, queue)
		job, token = claimed.ID, claimed.LeaseToken
		if needs[op.OperationID] == "dead" {
			if _, err := e.client.Fail(t.Context(), job, api.FailRequest{LeaseToken: token, Permanent: true}); err != nil {
				t.Fatal(err)
			}
		}
	case "tenant": // one of its own
		tenant = e.cluster.NewTenant(t, "to be deleted").ID
	case "signal link":
		job = stack.Submit(t, e.client, api.SubmitRequest{Type: "x", Queue: queue})
		link = e.signalLink(t, job)
	case "redrive":
		redrive = e.redrive(t, queue)
	case "bulk":
		begun, err := e.client.Bulk(t.Context(), api.BulkRequest{Action: api.BulkCancel, Filter: api.BulkFilter{Queue: &queue}})
		if err != nil {
			t.Fatal(err)
		}
		redrive = begun.ID
	case "workflow":
		job = e.workflow(t, queue)
	case "schedule":
		e.schedule(t, queue)
		job = newID(t)
	case "webhook":
		request := api.WebhookRequest{URL: "https://127.0.0.1:1/nobody", Events: []string{api.EventJobCompleted}, Paused: true}
		if _, err := e.client.PutWebhook(t.Context(), queue, request); err != nil {
			t.Fatal(err)
		}
		job = newID(t)
	case "budget":
		if _, err := e.client.PutBudget(t.Context(), queue, api.BudgetRequest{Unit: "tokens", Amount: 1, Window: new(api.BudgetDay)}); err != nil {
			t.Fatal(err)
		}
		job, named = newID(t), strconv.Quote(queue)
	case "type":
		if _, err := e.client.PutType(t.Context(), queue, api.JobTypeRequest{Description: "Sends a mail."}); err != nil {
			t.Fatal(err)
		}
		job = newID(t)
	case "push":
		request := api.QueueRequest{Mode: new(api.ModePush), Push: &api.PushRequest{URL: "https://127.0.0.1:1/nobody"}}
		if _, err := e.client.PutQueue(t.Context(), queue, request); err != nil {
			t.Fatal(err)
		}
		named = strconv.Quote(queue)
	case "queue": // one of its own, without jobs: what pushes would call example.com
		named = strconv.Quote(queue)
	default:
		job = stack.Submit(t, e.client, api.SubmitRequest{Type: "x", Queue: queue})
	}
	if op.OperationID == "submitJobs" { // a new job, but of the tenant that there is
		tenant = e.tenant.ID
	}
	ownType := documentedType
	if op.Tags[0] == "Job types" { // the others do not get a schema
		ownType = strconv.Quote(queue)
	}
	return strings.NewReplacer(
		documentedType, ownType, documentedJob, job, documentedTenant, tenant, documentedRedrive, redrive, documentedKey, id, documentedQueue, named, documentedSchedule, strconv.Quote(queue), documentedWebhook, strconv.Quote(queue), documentedBudget, strconv.Quote(queue),
		"LEASE_TOKEN", token, "SIGNAL_TOKEN", link, "exampleexamp", id[:6]+"zzzzzz",
	)
}

// signalLink makes a link that sends a signal, and gives its token.
func (e *documented) signalLink(t *testing.T, job string) string {
	t.Helper()
	var made api.SignalLink
	status, text := stack.Call(t, http.MethodPost, e.cluster.Gateways[0].URL+"/v1/jobs/"+job+"/signal-links", e.tenant.Key, []byte(`{"name":"approved"}`))
	if err := json.Unmarshal(text, &made); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	return made.URL[strings.LastIndex(made.URL, "/")+1:]
}

// redrive begins one, of nothing.
func (e *documented) redrive(t *testing.T, queue string) string {
	t.Helper()
	begun, err := e.client.RedriveMatching(t.Context(), api.DeadLetterFilter{Queue: queue}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return begun.ID
}

// workflow makes one of a job that waits.
func (e *documented) workflow(t *testing.T, queue string) string {
	t.Helper()
	made, err := e.client.SubmitWorkflow(t.Context(), client.Workflow().Add("mail", api.SubmitRequest{Type: "x", Queue: queue}))
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// schedule makes one that is far from its next tick.
func (e *documented) schedule(t *testing.T, name string) {
	t.Helper()
	yearly := "@yearly"
	if _, err := e.client.PutSchedule(t.Context(), name, api.ScheduleRequest{Cron: &yearly, Job: api.ScheduleJob{Type: "x"}}); err != nil {
		t.Fatal(err)
	}
}

func newID(t *testing.T) string {
	t.Helper()
	random := make([]byte, 6)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	return "01980a5c-7b1e-7cc0-9d5e-" + hex.EncodeToString(random)
}
