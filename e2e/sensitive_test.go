package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/collector"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// canary is in all that a type marks, and in all that its workers say. The parts of one text cannot be there by chance.
const canary = "c4n4ry-4111-1111"

// hiding is a product with jobs that have something sensitive, and two keys of the tenant: one sees it, the other does not.
type hiding struct {
	*testing.T
	*stack.Cluster

	tenant         stack.Tenant
	full           *client.Client
	seer, viewer   string
	hooks          *hookEndpoint
	spans          *collector.Collector
	dead, done     string
	running, child string
	later          string
	workflow       string
}

func newHiding(t *testing.T) *hiding {
	t.Helper()
	h := &hiding{T: t, hooks: newHookEndpoint(t), spans: collector.New(t)}
	settings := stack.PushSettings()
	maps.Copy(settings, map[string]string{
		"FORGEQUEUE_MCP": "write", "FORGEQUEUE_LOG_LEVEL": "debug", "OTEL_EXPORTER_OTLP_ENDPOINT": h.spans.URL, "OTEL_BSP_SCHEDULE_DELAY": "50",
	})
	h.Cluster = stack.NewCluster(t, stack.ClusterOptions{Settings: settings})
	h.tenant = h.NewTenant(t, "hides")
	admin := h.Client(t, h.tenant.Key)
	key := func(scopes ...string) string {
		made, err := admin.CreateOwnKey(t.Context(), api.KeyRequest{Scopes: scopes})
		h.must(err)
		return made.Secret
	}
	h.seer, h.viewer = key(api.UserScopes()...), key(api.ScopeRead, api.ScopeSubmit, api.ScopeManage)
	h.full = h.Client(t, h.seer)
	h.fill()
	return h
}

func (h *hiding) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *hiding) submit(change func(*api.SubmitRequest)) string {
	h.Helper()
	request := api.SubmitRequest{Type: "secret", Queue: "q", Payload: json.RawMessage(`{"card":"` + canary + `","open":"shown"}`), MaxAttempts: new(2)}
	change(&request)
	return stack.Submit(h, h.full, request)
}

// fill makes jobs in all states, of which workers have said the canary in each way that there is.
func (h *hiding) fill() {
	h.Helper()
	ctx := h.Context()
	_, err := h.full.PutType(ctx, "secret", api.JobTypeRequest{
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"card":{"type":"string","x-sensitive":true}}}`),
		ResultSchema:  json.RawMessage(`{"properties":{"token":{"x-sensitive":true}}}`), CheckResults: true,
		Examples: []json.RawMessage{[]byte(`{"card":"` + canary + `"}`)},
	})
	h.must(err)
	_, err = h.full.PutWebhook(ctx, "hook", api.WebhookRequest{URL: h.hooks.URL, Events: []string{api.EventJobCompleted, api.EventJobDeadLetter}})
	h.must(err)
	_, err = h.full.PutSchedule(ctx, "nightly", api.ScheduleRequest{Cron: new("0 3 * * *"), Job: api.ScheduleJob{
		Type: "secret", Queue: "nights", Payload: json.RawMessage(`{"card":"` + canary + `"}`),
	}})
	h.must(err)
	h.dead = h.submit(func(r *api.SubmitRequest) { r.MaxAttempts, r.Queue = new(1), "dying" })
	job := h.speaks("dying")
	_, err = h.full.Fail(ctx, job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Error: &api.JobError{Type: "Declined", Message: "no " + canary, Stack: "at " + canary}})
	h.must(err)
	h.done = h.submit(func(r *api.SubmitRequest) { r.Queue = "doing" })
	job = h.speaks("doing")
	_, err = h.full.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken, Result: json.RawMessage(`{"token":"` + canary + `"}`)})
	h.must(err)
	h.child = h.submit(func(r *api.SubmitRequest) { r.After = []api.Dependency{{JobID: h.done}} })
	h.running = h.submit(func(r *api.SubmitRequest) { r.Queue = "runs" })
	h.speaks("runs")
	h.later = h.submit(func(r *api.SubmitRequest) { r.DelayMS = new(time.Hour.Milliseconds()) })
	workflow, err := h.full.SubmitWorkflow(ctx, client.Workflow().Add("one", api.SubmitRequest{Type: "secret", Queue: "flow", Payload: json.RawMessage(`{"card":"` + canary + `"}`)}))
	h.must(err)
	h.workflow = workflow.ID
}

// speaks claims the job of a queue, which then has output, progress and a checkpoint.
func (h *hiding) speaks(queue string) api.ClaimedJob {
	h.Helper()
	job := stack.ClaimOne(h, h.full, "w", queue)
	if !strings.Contains(string(job.Payload), canary) {
		h.Fatalf("the worker gets %s", job.Payload)
	}
	_, err := h.full.AppendOutput(h.Context(), job.ID, api.OutputRequest{LeaseToken: job.LeaseToken, Chunks: []api.OutputChunk{{Seq: 1, Stream: api.OutputOut, Text: canary + "\n"}}})
	h.must(err)
	_, err = h.full.Heartbeat(h.Context(), "w", []api.Lease{{
		JobID: job.ID, LeaseToken: job.LeaseToken, Progress: &api.Progress{Message: new(canary)}, Checkpoint: json.RawMessage(`{"at":"` + canary + `"}`),
	}})
	h.must(err)
	return job
}

// call gives an answer, with its headers.
func (h *hiding) call(key, method, path, body string, headers ...string) string {
	h.Helper()
	request, err := http.NewRequestWithContext(h.Context(), method, h.Gateways[0].URL+path, strings.NewReader(body))
	h.must(err)
	request.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	h.must(err)
	defer func() { _ = response.Body.Close() }()
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		speaks := strings.Contains(path, h.running) // that of an ended job ends, and the others have said nothing
		some := make([]byte, 64<<10)
		var got []byte
		for !bytes.Contains(got, []byte("event: job")) || speaks && !bytes.Contains(got, []byte("event: output")) {
			n, err := response.Body.Read(some)
			if got = append(got, some[:n]...); err != nil {
				break
			}
		}
		return string(got)
	}
	text, err := io.ReadAll(response.Body)
	h.must(err)
	var shown bytes.Buffer
	_ = response.Header.Write(&shown)
	return response.Status + "\n" + shown.String() + string(text)
}

// documented are the paths that the API's document has for a GET.
func documented(t *testing.T) (paths []string) {
	t.Helper()
	text, err := os.ReadFile(stack.Repository("api-docs", "gateway.json"))
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range document.Paths {
		if methods["get"] != nil && strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/v1/admin/") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Of what a type marks with x-sensitive, and of what its workers say, a key without the scope payload gets not a byte: by no route
// that the API's document has, by no stream, change, dry run, problem, tool, command or page; and webhooks, logs and traces have
// none for anybody. With the scope it is there.
func TestNoSurfaceShowsWhatIsSensitive(t *testing.T) {
	t.Parallel()
	h := newHiding(t)
	// shows: the surface has the canary for those who may see it; a repeat must be possible.
	type surface struct {
		shows bool
		ask   func(key string) string
	}
	surfaces := map[string]surface{}
	get := func(path string, shows bool) {
		surfaces["GET "+path] = surface{shows, func(key string) string { return h.call(key, http.MethodGet, path, "") }}
	}
	jobs := []string{h.dead, h.done, h.running, h.child, h.later}
	shows := []string{"/v1/jobs/{id}", "/v1/jobs/{id}/events", "/v1/jobs/{id}/output", "/v1/jobs/{id}/explain", "/v1/dead-letters", "/v1/dead-letters/groups", "/v1/jobs", "/v1/schedules", "/v1/schedules/{name}", "/v1/types/{type}", "/v1/openapi"}
	names := map[string]string{"/v1/schedules/": "nightly", "/v1/webhooks/": "hook", "/v1/queues/": "q", "/v1/budgets/": "none", "/v1/workflows/": h.workflow, "/v1/types/": "secret"}
	for _, path := range documented(t) {
		if strings.HasPrefix(path, "/v1/jobs/{id}") {
			for _, id := range jobs {
				ends := id == h.dead || id == h.done || id == h.running
				filled := strings.Replace(path, "{id}", id, 1)
				if strings.HasSuffix(path, "/explain") {
					filled += "?details=true"
				}
				get(filled, ends && slices.Contains(shows, path))
			}
			continue
		}
		filled := path
		for prefix, name := range names {
			if strings.HasPrefix(path, prefix) {
				filled = regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, name)
			}
		}
		get(filled, slices.Contains(shows, path))
	}
	get("/v1/jobs/"+h.child+"/parents", true)
	get("/v1/jobs/"+h.dead+"/attempts", true)
	do := func(name string, shows bool, ask func(key string) string) { surfaces[name] = surface{shows, ask} }
	post := func(path, body string, shows bool, headers ...string) {
		do("POST "+path+" "+body, shows, func(key string) string { return h.call(key, http.MethodPost, path, body, headers...) })
	}
	do("wait for a job", true, func(key string) string {
		return h.call(key, http.MethodGet, "/v1/jobs/"+h.running, "", "Prefer", "wait=1")
	})
	do("output as text", true, func(key string) string {
		return h.call(key, http.MethodGet, "/v1/jobs/"+h.running+"/output", "", "Accept", "text/plain")
	})
	do("change", true, func(key string) string {
		return h.call(key, http.MethodPatch, "/v1/jobs/"+h.later, `{"priority":3}`, "Content-Type", "application/json")
	})
	do("put a schedule", false, func(key string) string {
		return h.call(key, http.MethodPut, "/v1/schedules/nightly", `{"cron":"0 3 * * *","job":{"type":"secret","payload":{"card":"•••"}}}`)
	})
	post("/v1/jobs/"+h.dead+"/rerun", `{"queue":"again"}`, false)
	post("/v1/jobs/"+h.dead+"/rerun", `{"type":"free","delay_ms":3600000}`, false)
	post("/v1/jobs", `{"type":"secret","payload":{"card":4111}}`, false)
	post("/v1/bulk", `{"action":"cancel","filter":{"type":"secret"},"dry_run":true}`, false)
	post("/v1/dead-letters/redrive", `{"filter":{"type":"secret"},"dry_run":true}`, false)
	post("/v1/schedules/nightly/trigger", "", false)
	post("/v1/jobs/"+h.running+"/cancel", "", true)
	commands := map[string]bool{
		"job get " + h.dead: true, "job get " + h.done + " -o json": true, "jobs -o json": true, "jobs --state dead_letter": false, "job attempts " + h.dead: true,
		"job logs " + h.done: true, "job why " + h.dead: false, "job parents " + h.child: true, "dead-letter list -o json": true, "dead-letter groups": true,
		"schedule get nightly -o json": true, "type get secret -o json": true, "job watch " + h.done: true,
	}
	for command, shows := range commands {
		do("forgequeue "+command, shows, func(key string) string {
			c := exec.CommandContext(t.Context(), stack.Binary(t), strings.Fields(command)...)
			c.Env = append(os.Environ(), "FORGEQUEUE_URL="+h.Gateways[0].URL, "FORGEQUEUE_API_KEY="+key)
			output, _ := c.CombinedOutput() // a dead letter is an exit code
			return string(output)
		})
	}
	agents := map[string]agent{h.seer: newAgent(t, h.Gateways[0].URL, h.seer), h.viewer: newAgent(t, h.Gateways[0].URL, h.viewer)}
	tools := map[string]map[string]any{}
	for _, tool := range agents[h.viewer].tools() {
		if !strings.HasPrefix(tool.Name, "get_") && !strings.HasPrefix(tool.Name, "list_") && !strings.HasPrefix(tool.Name, "explain_") && !strings.HasPrefix(tool.Name, "read_") && !strings.HasPrefix(tool.Name, "count_") {
			continue
		}
		tools[tool.Name] = map[string]any{"id": h.dead}
		do("tool "+tool.Name+" of a job", tool.Name == "explain_job" || tool.Name == "get_job", func(key string) string {
			text, _ := agents[key].say(tool.Name, map[string]any{"id": h.dead})
			return text
		})
		do("tool "+tool.Name, false, func(key string) string {
			text, _ := agents[key].say(tool.Name, map[string]any{})
			return text
		})
	}
	if len(tools) < 10 {
		t.Errorf("%d tools that read", len(tools))
	}
	browsers := map[string]*http.Client{h.seer: h.signIn(h.seer), h.viewer: h.signIn(h.viewer)}
	for path, shows := range map[string]bool{
		"/console": false, "/console/jobs": true, "/console/jobs/" + h.dead: true, "/console/jobs/" + h.done: true, "/console/jobs/" + h.running: true,
		"/console/jobs/" + h.later + "/change": true, "/console/dead-letters": true, "/console/schedules/nightly": true, "/console/types/secret": true,
		"/console/workflows/" + h.workflow: false, "/console/queues/q": false, "/console/audit": false, "/console/webhooks/hook": false, "/console/jobs?queue=_webhook.hook": false,
	} {
		do("page "+path, shows, func(key string) string {
			response, err := browsers[key].Get(h.Gateways[0].URL + path)
			h.must(err)
			defer func() { _ = response.Body.Close() }()
			text, err := io.ReadAll(response.Body)
			h.must(err)
			return string(text)
		})
	}
	h.hooks.await(t, api.EventJobCompleted, 1)
	h.hooks.await(t, api.EventJobDeadLetter, 1)
	for name, of := range surfaces {
		if got := of.ask(h.seer); of.shows && !strings.Contains(got, canary) {
			t.Errorf("%s: with the scope it is not there: %.600s", name, got)
		}
		if got := of.ask(h.viewer); strings.Contains(got, canary) {
			t.Errorf("%s: %.1200s", name, got)
		}
	}
	for _, kind := range []string{api.EventJobCompleted, api.EventJobDeadLetter} {
		for _, call := range h.hooks.got(kind) {
			if strings.Contains(string(call.body), canary) {
				t.Errorf("webhook %s: %s", kind, call.body)
			}
		}
	}
	stack.Eventually(t, time.Minute, "spans have come", func() bool { return h.spans.Requests() > 2 })
	if h.spans.Has(canary) {
		t.Error("a trace has it")
	}
	for _, service := range append(slices.Clone(h.Cores), h.Gateways...) {
		if log := service.Output(); strings.Contains(log, canary) {
			at := strings.Index(log, canary)
			t.Errorf("a log has it: %.400s", log[max(0, at-300):])
		}
	}
	t.Logf("%d surfaces, %d of them with the canary for a key with the scope", len(surfaces), len(slices.DeleteFunc(slices.Collect(maps.Values(surfaces)), func(s surface) bool { return !s.shows })))
}

// signIn gives a browser that is signed in to the console.
func (h *hiding) signIn(key string) *http.Client {
	h.Helper()
	jar, err := cookiejar.New(nil)
	h.must(err)
	browser := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(h.Context(), http.MethodPost, h.Gateways[0].URL+"/console/sign-in", strings.NewReader(url.Values{"key": {key}}.Encode()))
	h.must(err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", h.Gateways[0].URL)
	response, err := browser.Do(request)
	h.must(err)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		h.Fatalf("sign-in: %s", response.Status)
	}
	return browser
}
