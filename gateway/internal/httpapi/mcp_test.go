package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/gateway/internal/mcp"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func newMCP(t *testing.T, mode mcp.Mode, change ...func(*httpapi.Options)) *door {
	t.Helper()
	return newDoor(t, append(change, func(o *httpapi.Options) { o.MCP = mode })...)
}

// bearer sends a key with each request.
type bearer struct {
	key  string
	next http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return b.next.RoundTrip(r)
}

// agent connects the SDK's client.
func (d *door) agent(t *testing.T, key string) *sdk.ClientSession {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: d.url + "/mcp", HTTPClient: &http.Client{Transport: bearer{key, d.client.Transport}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func toolNames(t *testing.T, session *sdk.ClientSession) []string {
	t.Helper()
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// use calls a tool, and gives its text.
func use(t *testing.T, session *sdk.ClientSession, name string, arguments any) (text string, failed bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return result.Content[0].(*sdk.TextContent).Text, result.IsError
}

func TestAgentsAreRefusedAsTheAPIRefuses(t *testing.T) {
	t.Parallel()
	d := newMCP(t, mcp.Read)
	const ping = `{"jsonrpc": "2.0", "id": 1, "method": "ping"}`
	for _, key := range []string{"", "fq_test_0123456789abcdef_wrong"} {
		if got := d.do("POST", "/mcp", key, ping); got.refused(t, 401, problem.Unauthenticated).Instance != "/mcp" || got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%q: %v %s", key, got.header, got.body)
		}
	}
	d.do("POST", "/mcp", operatorKey, ping).refused(t, 403, problem.Forbidden)
	d.do("POST", "/mcp", d.platformKey(), ping).refused(t, 403, problem.Forbidden)
	key := d.key("read")
	for _, method := range []string{"GET", "DELETE", "PUT", "OPTIONS"} {
		if got := d.do(method, "/mcp", key, ""); got.refused(t, 405, problem.MethodNotAllowed).Code == "" || got.header.Get("Allow") != "POST" {
			t.Errorf("%s: %v", method, got.header)
		}
	}
	d.do("POST", "/mcp", key, "["+ping+"]").refused(t, 400, problem.InvalidRequest)
	d.do("POST", "/mcp", key, "null").refused(t, 400, problem.InvalidRequest)
	d.do("POST", "/mcp", key, `{"id": 1, "id": 2}`).refused(t, 400, problem.InvalidJSON)
	d.do("POST", "/mcp", key, "").refused(t, 400, problem.InvalidJSON)
	d.do("POST", "/mcp", key, ping, "Content-Type", "text/plain").refused(t, 415, problem.UnsupportedMediaType)
	d.do("POST", "/mcp", key, `{"x": "`+strings.Repeat("x", api.MaxBody)+`"}`).refused(t, 413, problem.PayloadTooLarge)
	if got := d.do("POST", "/mcp", key, ping); got.status != 200 || string(got.body) != `{"jsonrpc":"2.0","id":1,"result":{}}` || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	newDoor(t).do("POST", "/mcp", key, ping).refused(t, 404, problem.NotFound)
}

// A page of another origin does not reach it, also where its name has become this machine's address.
func TestAgentsOfForeignPages(t *testing.T) {
	t.Parallel()
	d := newMCP(t, mcp.Read, func(o *httpapi.Options) { o.PublicURL = "https://jobs.example.com" })
	key, host := d.key("read"), strings.TrimPrefix(d.url, "http://")
	for origin, allowed := range map[string]bool{
		"https://evil.example": false, "null": false, "http://localhost:1": false, "https://jobs.example.com.evil.example": false, "http://jobs.example.com": false,
		"https://jobs.example.com": true, "http://" + host: true,
	} {
		got := d.do("POST", "/mcp", key, `{"jsonrpc": "2.0", "id": 1, "method": "ping"}`, "Origin", origin)
		if allowed != (got.status == 200) {
			t.Errorf("%s: %d %s", origin, got.status, got.body)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), "POST", d.url+"/mcp", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "rebound.example"
	request.Header = http.Header{"Origin": {"http://rebound.example"}, "Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
	d.send(request).refused(t, 403, problem.Forbidden)
}

// A key sees the tools whose routes it may use, and of those that change something none unless the installation allows them.
func TestToolsOfAKey(t *testing.T) {
	t.Parallel()
	for mode, writes := range map[mcp.Mode]bool{mcp.Read: false, mcp.Write: true} {
		d := newMCP(t, mode)
		for _, test := range []struct {
			scopes    []string
			user      string
			has, lack []string
		}{
			{scopes: []string{"work"}, has: []string{"get_limits"}, lack: []string{"get_job", "cancel_job"}},
			{scopes: []string{"read"}, has: []string{"explain_job", "list_queues", "get_stats"}, lack: []string{"count_bulk", "cancel_job", "bulk"}},
			{scopes: []string{"read"}, user: "bob", has: []string{"explain_job"}, lack: []string{"list_queues", "get_stats", "list_budgets"}},
			{scopes: []string{"manage"}, has: []string{"count_bulk", "count_redrive"}, lack: []string{"get_job", "cancel_job"}},
		} {
			session := d.agent(t, d.keyWith(func(k *hop.KeyRecord) { k.Scopes, k.User = test.scopes, test.user }))
			names := toolNames(t, session)
			for _, name := range test.has {
				if !slices.Contains(names, name) {
					t.Errorf("%s %v: there is no %s in %v", mode, test.scopes, name, names)
				}
			}
			for _, name := range test.lack {
				if slices.Contains(names, name) {
					t.Errorf("%s %v: there is %s", mode, test.scopes, name)
				}
				if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: map[string]any{"id": jobID}}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
					t.Errorf("%s %v: %s can be called: %v", mode, test.scopes, name, err)
				}
			}
		}
		all := d.agent(t, d.key(api.Scopes()...))
		listed, err := all.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range listed.Tools {
			if reads := tool.Annotations.ReadOnlyHint; !reads && !writes {
				t.Errorf("%s: there is %s", mode, tool.Name)
			}
		}
		if slices.Contains(toolNames(t, all), "cancel_job") != writes {
			t.Errorf("%s: cancel_job", mode)
		}
		if n := len(d.core.Requests(hop.CancelJob.Path)); n > 0 {
			t.Errorf("%s: core was asked to cancel %d times", mode, n)
		}
	}
}

func TestToolsAreRequestsOfTheirCaller(t *testing.T) {
	t.Parallel()
	d := newMCP(t, mcp.Write)
	d.core.On(hop.ListJobs.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Page[api.JobSummary]{Items: []api.JobSummary{}})
	})
	d.core.On(hop.CancelJob.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.JobTerminal, "It has ended.") })
	session := d.agent(t, d.key(api.Scopes()...))
	text, failed := use(t, session, "list_jobs", map[string]any{"state": []string{"queued", "running"}, "metadata": map[string]string{"a.b": "1&2"}, "page_size": 7, "tag": nil})
	if failed || text != `{"items":[],"next_page_token":null}` {
		t.Errorf("%v %s", failed, text)
	}
	asked := d.core.Requests(hop.ListJobs.Path)
	if len(asked) != 1 || asked[0].Items[0].Principal.Tenant != tenantID {
		t.Fatalf("%+v", asked)
	}
	var request hop.Filtered[api.JobFilter]
	if err := json.Unmarshal(asked[0].Items[0].Request, &request); err != nil || request.PageSize != 7 || request.Filter.Metadata["a.b"] != "1&2" || len(request.Filter.States) != 2 {
		t.Errorf("%s %v", asked[0].Items[0].Request, err)
	}
	var p problem.Problem
	text, failed = use(t, session, "cancel_job", map[string]any{"id": jobID})
	if err := json.Unmarshal([]byte(text), &p); err != nil || !failed || p.Code != problem.JobTerminal || p.Detail != "It has ended." || p.RequestID == "" {
		t.Errorf("%v %s", failed, text)
	}
	for _, wrong := range []struct {
		tool      string
		arguments map[string]any
		field     string
	}{
		{"get_job", nil, "id"},
		{"get_job", map[string]any{"id": ""}, "id"},
		{"get_job", map[string]any{"id": map[string]any{}}, "id"},
		{"get_job", map[string]any{"id": jobID, "x": 1}, "x"},
		{"explain_job", map[string]any{"id": jobID, "details": "false"}, "details"},
		{"list_jobs", map[string]any{"state": []any{[]any{}}}, "state"},
		{"list_jobs", map[string]any{"page_size": 1000}, "page_size"},
		{"count_bulk", map[string]any{"action": "cancel", "filter": map[string]any{}, "dry_run": false}, "dry_run"},
		{"count_bulk", map[string]any{"action": "burn", "filter": map[string]any{}}, "action"},
		{"bulk", map[string]any{"action": "cancel", "filter": map[string]any{}}, "matched"},
		{"bulk", map[string]any{"action": "cancel", "filter": map[string]any{}, "matched": "all"}, "matched"},
		{"redrive_dead_letters", map[string]any{"matched": 1}, "filter"},
	} {
		text, failed := use(t, session, wrong.tool, wrong.arguments)
		var p problem.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil || !failed || p.Status != 400 || len(p.Errors) == 0 || p.Errors[0].Field != wrong.field {
			t.Errorf("%s %v: %v %s", wrong.tool, wrong.arguments, failed, text)
		}
	}
	for _, id := range []string{"..", "../queues", "x/../..", "%2e%2e", "?a=b", "\x00", "a\nb"} {
		if text, failed := use(t, session, "get_job", map[string]any{"id": id}); !failed || !strings.Contains(text, `"not_found"`) {
			t.Errorf("%q: %s", id, text)
		}
	}
}

func TestAnswersOfToolsAreShort(t *testing.T) {
	t.Parallel()
	d := newMCP(t, mcp.Read)
	jobs := make([]api.JobSummary, 200)
	for i := range jobs {
		jobs[i].ID, jobs[i].Metadata = jobID, map[string]string{"text": strings.Repeat(`é"`, 500)}
	}
	d.core.On(hop.ListJobs.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Page[api.JobSummary]{Items: jobs, NextPageToken: new("next")})
	})
	d.core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result {
		job := api.Job{}
		job.ID, job.Payload = jobID, json.RawMessage(`{"small": 1, "long": "`+strings.Repeat("y", 200_000)+`", "many": [`+strings.Repeat(`1,`, 100_000)+`2]}`)
		return coretest.Value(200, job)
	})
	session := d.agent(t, d.key("read"))
	text, _ := use(t, session, "list_jobs", map[string]any{"page_size": 200})
	var page struct {
		Items []api.JobSummary
		Next  *string `json:"next_page_token"`
		Cut   struct {
			Shown   int
			LeftOut int `json:"left_out"`
			Hint    string
		}
	}
	if err := json.Unmarshal([]byte(text), &page); err != nil || len(text) > 64<<10 || len(page.Items) < 10 || page.Next != nil ||
		page.Cut.Shown != len(page.Items) || page.Cut.LeftOut != 200-len(page.Items) || !strings.Contains(page.Cut.Hint, fmt.Sprintf("page_size %d", len(page.Items))) {
		t.Errorf("%d bytes, %d items, %+v %v", len(text), len(page.Items), page.Cut, err)
	}
	text, _ = use(t, session, "get_job", map[string]any{"id": jobID})
	var job api.Job
	if err := json.Unmarshal([]byte(text), &job); err != nil || len(text) > 64<<10 || job.ID != jobID || !strings.Contains(string(job.Payload), `"small":1`) || !strings.Contains(text, "(left out: ") {
		t.Errorf("%d bytes: %.300s %v", len(text), text, err)
	}
}

// Of a job's output a tool gives the end; a text that is cut short is no answer.
func TestToolReadsTheEndOfOutput(t *testing.T) {
	t.Parallel()
	d := newMCP(t, mcp.Read)
	d.core.On(hop.ReadOutput.Path, func(item coretest.Item) coretest.Result {
		var asked hop.ReadOutputRequest
		if err := json.Unmarshal(item.Request, &asked); err != nil || asked.Seq == 9 {
			return coretest.Refuse(problem.Internal, "broken")
		}
		page := api.OutputPage{Items: []api.Output{{ID: fmt.Sprintf("1.%d", asked.Seq+1), Text: strings.Repeat("é", 40_000)}}, More: asked.Seq != 1}
		return coretest.Value(200, page)
	})
	session := d.agent(t, d.key("read"))
	if text, failed := use(t, session, "read_output", map[string]any{"id": jobID}); failed || len(text) > 65_600 || !strings.HasPrefix(text, "(94464 bytes before this are left out)\né") || !strings.HasSuffix(text, "é") {
		t.Errorf("%v %d bytes: %.100q", failed, len(text), text)
	}
	if text, failed := use(t, session, "read_output", map[string]any{"id": jobID, "after": "1.8"}); !failed || !strings.Contains(text, `"core_unavailable"`) {
		t.Errorf("%v %.200s", failed, text)
	}
}

// Each message is charged, logged and counted, and so is the request of its tool, for the same client.
func TestMessagesOfAgentsCount(t *testing.T) {
	t.Parallel()
	d := newMCP(t, mcp.Read)
	key := d.limited(api.Limits{RequestsPerSecond: new(0.001), RequestBurst: new(int64(2))})
	const call = `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_queues"}}`
	d.core.On(hop.ListQueues.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Page[api.Queue]{Items: []api.Queue{}})
	})
	if got := d.do("POST", "/mcp", key, call, "X-Correlation-Id", "session-1"); got.status != 200 || !strings.Contains(string(got.body), `items`) || got.header.Get("RateLimit") == "" {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	d.do("POST", "/mcp", key, call).refused(t, 429, problem.RateLimited)
	counted := d.metric("forgequeue_http_request_duration_seconds")
	log := d.log.String()
	if strings.Count(log, `"correlation_id":"session-1"`) != 2 || !strings.Contains(log, `"route":"/mcp"`) || !strings.Contains(log, `"route":"/v1/queues"`) {
		t.Errorf("%v\n%s", counted, log)
	}
}

// No message keeps its answer open, and none of nonsense is a failure of the server.
func TestNonsenseOfAgents(t *testing.T) {
	t.Parallel()
	d := newMCP(t, mcp.Write)
	key := d.key(api.Scopes()...)
	values := []string{`null`, `1e400`, `-1`, `"x"`, `""`, `[]`, `{}`, `[[[]]]`, `{"a": {"b": null}}`, `"\u0000"`, `"` + strings.Repeat("ü", 5000) + `"`, `true`, strings.Repeat("[", 60) + strings.Repeat("]", 60)}
	var messages []string
	for _, method := range []string{"initialize", "ping", "tools/list", "tools/call", "server/discover", "subscriptions/listen", "resources/read", "logging/setLevel", "completion/complete", "notifications/cancelled", "notifications/initialized", "nonsense", ""} {
		for _, value := range values {
			messages = append(messages,
				fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": %q, "params": %s}`, method, value), fmt.Sprintf(`{"jsonrpc": "2.0", "method": %q, "params": %s}`, method, value),
				fmt.Sprintf(`{"jsonrpc": "2.0", "id": %s, "method": %q}`, value, method))
		}
	}
	messages = append(messages, `{}`, `{"jsonrpc": "2.0", "id": 1, "result": {}}`, `{"jsonrpc": 2}`)
	listed, err := d.agent(t, key).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range listed.Tools {
		names := []string{"matched"}
		for name := range tool.InputSchema.(map[string]any)["properties"].(map[string]any) {
			names = append(names, name)
		}
		for i, value := range values {
			arguments := make([]string, len(names))
			for j, name := range names {
				arguments[j] = fmt.Sprintf("%q: %s", name, values[(i+j)%len(values)])
			}
			messages = append(messages,
				fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": %q, "arguments": %s}}`, tool.Name, value),
				fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": %q, "arguments": {%s}}}`, tool.Name, strings.Join(arguments, ", ")))
		}
	}
	for _, message := range messages {
		for _, version := range []string{"", "2025-11-25", "2026-07-28"} {
			if version == "2026-07-28" && !strings.Contains(message, `"tools/call"`) {
				message = strings.Replace(message, `"params": {}`, `"params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}}}`, 1)
			}
			request, err := http.NewRequestWithContext(t.Context(), "POST", d.url+"/mcp", strings.NewReader(message))
			if err != nil {
				t.Fatal(err)
			}
			request.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
			if version != "" {
				request.Header.Set("MCP-Protocol-Version", version)
			}
			if got := d.send(request); got.status >= 500 || strings.Contains(string(got.body), `"internal"`) || strings.Contains(got.header.Get("Content-Type"), "event-stream") && len(got.body) == 0 {
				t.Errorf("%q %.300s: %d %s", version, message, got.status, got.body)
			}
		}
	}
	if log := d.log.String(); strings.Contains(log, "panic") {
		t.Errorf("%s", log)
	}
}
