package e2e_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// agent is an MCP client with one key.
type agent struct {
	*mcp.ClientSession
	t *testing.T
}

// withKey sends a key with each request. /mcp is no part of the API's document, to which other clients hold answers.
type withKey struct {
	http.Transport

	key string
}

func (k *withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return k.Transport.RoundTrip(r)
}

func newAgent(t *testing.T, gateway, key string) agent {
	t.Helper()
	transport := &withKey{key: key}
	t.Cleanup(transport.CloseIdleConnections)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: gateway + "/mcp", HTTPClient: &http.Client{Transport: transport},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return agent{session, t}
}

// use calls a tool whose answer is to be decoded.
func (a agent) use(name string, arguments, into any) {
	a.t.Helper()
	text, failed := a.say(name, arguments)
	if failed {
		a.t.Fatalf("%s %v: %s", name, arguments, text)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		a.t.Fatalf("%s: %v in %s", name, err, text)
	}
}

func (a agent) say(name string, arguments any) (text string, failed bool) {
	a.t.Helper()
	result, err := a.CallTool(a.t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		a.t.Fatalf("%s %v: %v", name, arguments, err)
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

// because is the cause that the agent finds for a job: a reason why it waits, or why it has died.
func (a agent) because(id string) []string {
	a.t.Helper()
	var why api.Explanation
	a.use("explain_job", map[string]any{"id": id}, &why)
	var codes []string
	for _, reason := range why.Because {
		codes = append(codes, reason.Code)
	}
	if why.Job.DeadReason != nil {
		codes = append(codes, *why.Job.DeadReason+": "+why.Job.LastError.Message)
	}
	return codes
}

func (a agent) tools() []*mcp.Tool {
	a.t.Helper()
	listed, err := a.ListTools(a.t.Context(), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return listed.Tools
}

// staged makes a situation of each sort, and gives each job with the cause that is to be found.
func staged(t *testing.T, cluster *stack.Cluster, tenant stack.Tenant) map[string]string {
	t.Helper()
	c, ctx := cluster.Client(t, tenant.Key), t.Context()
	put := func(queue string, settings api.QueueRequest) {
		t.Helper()
		if _, err := c.PutQueue(ctx, queue, settings); err != nil {
			t.Fatal(err)
		}
	}
	submit := func(queue string, r api.SubmitRequest) string {
		t.Helper()
		r.Type, r.Queue = "t", queue
		return stack.Submit(t, c, r)
	}
	claim := func(queue string) api.ClaimedJob {
		t.Helper()
		claimed, err := c.Claim(ctx, api.ClaimRequest{WorkerID: "w-" + queue, Queues: []string{queue}, WaitMS: new(int64(20_000))})
		if err != nil || len(claimed.Jobs) != 1 {
			t.Fatalf("claim from %s: %+v %v", queue, claimed, err)
		}
		return claimed.Jobs[0]
	}
	causes := map[string]string{}

	put("paused", api.QueueRequest{})
	causes[submit("paused", api.SubmitRequest{})] = api.WhyPaused
	if _, err := c.PauseQueue(ctx, "paused"); err != nil {
		t.Fatal(err)
	}

	causes[submit("nobody", api.SubmitRequest{})] = api.WhyNoWorker

	put("capped", api.QueueRequest{MaxRunning: new(int64(1))})
	submit("capped", api.SubmitRequest{})
	claim("capped")
	causes[submit("capped", api.SubmitRequest{})] = api.WhyRunningCap

	put("pushed", api.QueueRequest{Mode: new(api.ModePush), Push: &api.PushRequest{URL: "http://127.0.0.1:1/", Breaker: &api.BreakerSettingsRequest{Calls: new(1), OpenMS: new(int64(60_000))}}})
	causes[submit("pushed", api.SubmitRequest{MaxAttempts: new(100)})] = api.WhyBreaker

	if _, err := c.PutBudget(ctx, "tokens", api.BudgetRequest{Unit: "tokens", Amount: 10, PerMS: new(int64(86_400_000))}); err != nil {
		t.Fatal(err)
	}
	submit("paid", api.SubmitRequest{Costs: api.Amounts{"tokens": 10}})
	claim("paid")
	causes[submit("paid", api.SubmitRequest{Costs: api.Amounts{"tokens": 10}})] = api.WhyBudget

	put("keyed", api.QueueRequest{Keys: &api.KeySettingsRequest{MaxRunning: new(int64(1))}})
	submit("keyed", api.SubmitRequest{Key: new("ada")})
	claim("keyed")
	causes[submit("keyed", api.SubmitRequest{Key: new("ada")})] = api.WhyKeyCap

	waits := submit("approvals", api.SubmitRequest{})
	if _, err := c.ReportWait(ctx, waits, api.WaitRequest{LeaseToken: claim("approvals").LeaseToken, For: []string{"approved"}, TimeoutMS: new(int64(3_600_000))}); err != nil {
		t.Fatal(err)
	}
	causes[waits] = api.WhySignal

	parent := submit("parents", api.SubmitRequest{DelayMS: new(int64(3_600_000))})
	causes[parent] = api.WhyTime
	causes[submit("parents", api.SubmitRequest{After: []api.Dependency{{JobID: parent}}})] = api.WhyParents

	dead := submit("failing", api.SubmitRequest{})
	if _, err := c.Fail(ctx, dead, api.FailRequest{LeaseToken: claim("failing").LeaseToken, Permanent: true, Error: &api.JobError{Type: "BadCard", Message: "the card has expired"}}); err != nil {
		t.Fatal(err)
	}
	causes[dead] = api.ReasonPermanent + ": the card has expired"
	return causes
}

// An agent with a key that reads finds the cause of each of ten situations by its tools alone, and changes nothing.
func TestAnAgentFindsCauses(t *testing.T) {
	t.Parallel()
	cluster := stack.SharedCluster(t)
	tenant := cluster.NewTenant(t, "causes")
	owner := cluster.Client(t, tenant.Key)
	causes := staged(t, cluster, tenant)
	if len(causes) != 10 {
		t.Fatalf("%d situations", len(causes))
	}
	made, err := owner.CreateOwnKey(t.Context(), api.KeyRequest{Scopes: []string{api.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, cluster.Gateways[0].URL, made.Secret)

	// It finds the jobs by the lists, not by what the test knows.
	var found api.Page[api.JobSummary]
	a.use("list_jobs", map[string]any{"page_size": 100}, &found)
	for id, cause := range causes {
		if !slices.ContainsFunc(found.Items, func(job api.JobSummary) bool { return job.ID == id }) {
			t.Errorf("list_jobs lacks %s", id)
		}
		stack.Eventually(t, time.Minute, "the agent finds "+cause, func() bool { return slices.Contains(a.because(id), cause) })
	}
	var groups api.DeadLetterGroups
	a.use("list_dead_letter_groups", map[string]any{}, &groups)
	if len(groups.Items) != 1 || causes[groups.Items[0].Example.JobID] == "" || groups.Items[0].Example.Error.Type != "BadCard" {
		t.Errorf("%+v", groups)
	}
	var queues api.Page[api.Queue]
	a.use("list_queues", map[string]any{"page_size": 100}, &queues)
	for _, queue := range queues.Items {
		if queue.Paused != (queue.Name == "paused") {
			t.Errorf("list_queues: %s is paused: %v", queue.Name, queue.Paused)
		}
	}

	before := versions(t, owner)
	changesNothing(t, a)
	changesNothing(t, newAgent(t, cluster.Gateways[1].URL, tenant.Key)) // its key may write, this installation does not
	if after := versions(t, owner); !slices.Equal(before, after) {
		t.Errorf("the agents have changed something:\n%v\n%v", before, after)
	}
}

// writingTools are all that change something.
func writingTools() []string {
	return []string{"change_job", "cancel_job", "rerun_job", "redrive_job", "redrive_dead_letters", "cancel_redrive", "bulk", "cancel_bulk", "pause_queue", "resume_queue"}
}

// changesNothing checks that an agent sees no tool that writes, and cannot call one that it knows by name. It calls all others.
func changesNothing(t *testing.T, a agent) {
	t.Helper()
	var jobs api.Page[api.JobSummary]
	a.use("list_jobs", map[string]any{"page_size": 100}, &jobs)
	for _, tool := range a.tools() {
		if !tool.Annotations.ReadOnlyHint || slices.Contains(writingTools(), tool.Name) {
			t.Errorf("there is %s", tool.Name)
		}
		for _, job := range jobs.Items {
			a.say(tool.Name, map[string]any{"id": job.ID})
		}
		a.say(tool.Name, map[string]any{"name": "paused", "action": "cancel", "filter": map[string]any{}})
		a.say(tool.Name, map[string]any{"action": "cancel", "filter": map[string]any{}})
		a.say(tool.Name, map[string]any{"filter": map[string]any{}})
	}
	for _, name := range writingTools() {
		_, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"id": jobs.Items[0].ID}})
		if err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("%s can be called: %v", name, err)
		}
	}
}

// versions is what there is of a tenant, as far as agents could change it.
func versions(t *testing.T, c *client.Client) (all []string) {
	t.Helper()
	jobs, err := c.List(t.Context(), api.JobFilter{}, client.PageRequest{Size: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs.Items {
		if job.Queue != "pushed" { // it is tried again
			all = append(all, job.ID+" "+job.State)
		}
	}
	queues, err := c.Queues(t.Context(), client.PageRequest{Size: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range queues.Items {
		if queue.Paused {
			all = append(all, queue.Name+" paused")
		}
	}
	return all
}

// Whatever tool another tenant's agent calls, a job is as unknown to it as one that does not exist.
func TestAgentsDoNotFindOthersJobs(t *testing.T) {
	t.Parallel()
	cluster := stack.NewCluster(t, stack.ClusterOptions{Settings: map[string]string{"FORGEQUEUE_MCP": "write"}})
	acme, other := cluster.NewTenant(t, "acme"), cluster.NewTenant(t, "other")
	c := cluster.Client(t, acme.Key)
	id := stack.Submit(t, c, api.SubmitRequest{Type: "secret-type", Queue: "secret-queue", Metadata: map[string]string{"secret": "7"}})
	flow, err := c.SubmitWorkflow(t.Context(), client.Workflow().Add("a", api.SubmitRequest{Type: "secret-type"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutBudget(t.Context(), "secret-budget", api.BudgetRequest{Unit: "tokens", Amount: 10, PerMS: new(int64(60_000))}); err != nil {
		t.Fatal(err)
	}
	stranger := newAgent(t, cluster.Gateways[0].URL, other.Key)
	tools := stranger.tools()
	if len(tools) < 30 {
		t.Errorf("%d tools", len(tools))
	}
	for _, tool := range tools {
		properties := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
		for _, arguments := range []map[string]any{
			{"id": id},
			{"id": flow.ID},
			{"name": "secret-queue"},
			{"name": "secret-budget"},
			{"queue": "secret-queue"},
			{},
			{"action": "cancel", "filter": map[string]any{"queue": "secret-queue"}},
			{"action": "cancel", "filter": map[string]any{}, "matched": 1},
			{"filter": map[string]any{}, "matched": 1},
		} {
			for name := range arguments {
				if properties[name] == nil {
					delete(arguments, name)
				}
			}
			text, failed := stranger.say(tool.Name, arguments)
			asked, _ := json.Marshal(arguments)
			for _, secret := range []string{id, flow.ID, "secret-type", "secret-queue", "secret-budget"} {
				if strings.Contains(text, secret) && !strings.Contains(string(asked), secret) {
					t.Errorf("%s %s says %s: %s", tool.Name, asked, secret, text)
				}
			}
			if arguments["id"] != nil && (!failed || !strings.Contains(text, `"code":"not_found"`)) {
				t.Errorf("%s %s: %s", tool.Name, asked, text)
			}
		}
	}
	if job := stack.Get(t, c, id); job.State != api.StateQueued {
		t.Errorf("the job is %s", job.State)
	}

	// The owner's agent may all of it, with the number that it has counted; one whose key reads may not.
	a := newAgent(t, cluster.Gateways[0].URL, acme.Key)
	action := map[string]any{"action": "cancel", "filter": map[string]any{"queue": "secret-queue"}}
	var matched api.Matched
	a.use("count_bulk", action, &matched)
	action["matched"] = matched.Matched + 1
	if text, failed := a.say("bulk", action); !failed || stack.Get(t, c, id).State != api.StateQueued {
		t.Errorf("a wrong number: %s", text)
	}
	action["matched"] = matched.Matched
	var bulk api.Bulk
	a.use("bulk", action, &bulk)
	stack.Eventually(t, time.Minute, "the bulk action is done", func() bool {
		a.use("get_bulk", map[string]any{"id": bulk.ID}, &bulk)
		return bulk.State == "done"
	})
	var again api.JobSummary
	a.use("rerun_job", map[string]any{"id": id, "idempotency_key": "once", "priority": 9}, &again)
	first := again.ID
	a.use("rerun_job", map[string]any{"id": id, "idempotency_key": "once", "priority": 9}, &again)
	if again.ID != first || again.Priority != 9 {
		t.Errorf("%+v, first %s", again, first)
	}
	a.use("change_job", map[string]any{"id": first, "priority": 1}, &again)
	var queue api.Queue
	a.use("pause_queue", map[string]any{"name": "secret-queue"}, &queue)
	if !queue.Paused || again.Priority != 1 || !slices.Contains(a.because(first), api.WhyPaused) {
		t.Errorf("%+v %+v", queue, again)
	}
	reader, err := c.CreateOwnKey(t.Context(), api.KeyRequest{Scopes: []string{api.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	changesNothing(t, newAgent(t, cluster.Gateways[0].URL, reader.Secret))
}
