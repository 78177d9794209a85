package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/e2e/collector"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
	clientTrace = "00-" + traceID + "-" + clientSpan + "-01"
	correlation = "order 17"
)

// traced is a cluster with a tenant, and a destination that answers with the headers
// that it was called with.
type traced struct {
	*stack.Cluster
	tenant   stack.Tenant
	client   *client.Client
	settings []string
}

func newTraced(t *testing.T, settings ...string) *traced {
	t.Helper()
	all := map[string]string{
		"FORGEQUEUE_PUSH_SECRETS_KEY": strings.Repeat("p", 32), "FORGEQUEUE_PUSH_ALLOW": "127.0.0.0/8", "FORGEQUEUE_LOG_LEVEL": "info",
		"OTEL_BSP_SCHEDULE_DELAY": "50",
	}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		all[name] = value
	}
	c := &traced{Cluster: stack.NewCluster(t, stack.ClusterOptions{Settings: all}), settings: append(settings, "OTEL_BSP_SCHEDULE_DELAY=50")}
	c.tenant = c.NewTenant(t, "traced")
	c.client = c.Client(t, c.tenant.Key)
	destination := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(seen{Traceparent: r.Header.Get("Traceparent"), Correlation: r.Header.Get("X-Correlation-Id")})
	}))
	t.Cleanup(destination.Close)
	c.SetQueue(t, c.tenant, "pushed", map[string]any{"mode": "push", "push": map[string]any{"url": destination.URL}})
	return c
}

// seen is what whoever does a job is told of its trace; jobs of these tests end with it.
type seen struct {
	Traceparent string `json:"traceparent"`
	Job         string `json:"job"`
	Correlation string `json:"correlation"`
}

// startWorker starts the command line's worker, whose command tells its environment.
func (c *traced) startWorker(t *testing.T) {
	t.Helper()
	const script = `printf '{"traceparent":"%s","job":"%s","correlation":"%s"}' "$TRACEPARENT" "$FORGEQUEUE_JOB_TRACEPARENT" "$FORGEQUEUE_JOB_CORRELATION_ID"`
	command := exec.CommandContext(context.WithoutCancel(t.Context()), stack.Binary(t), "worker", "run", "-q", "pulled", "--", "sh", "-c", script)
	command.Env = append(append(os.Environ(), c.settings...), "FORGEQUEUE_URL="+c.Gateways[0].URL, "FORGEQUEUE_API_KEY="+c.tenant.Key)
	worker := stack.StartCommand(t, command)
	t.Cleanup(func() { worker.Stop(t) })
}

// submit submits a job as a part of the client's trace, and checks the answer.
func (c *traced) submit(t *testing.T, queue string) api.JobSummary {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Gateways[0].URL+"/v1/jobs", strings.NewReader(`{"type":"echo","queue":"`+queue+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer " + c.tenant.Key, "Traceparent": clientTrace, "X-Correlation-Id": correlation,
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var job api.JobSummary
	if err := json.NewDecoder(response.Body).Decode(&job); err != nil || response.StatusCode != http.StatusAccepted {
		t.Fatalf("submit: %d %v", response.StatusCode, err)
	}
	if got := response.Header.Get("X-Correlation-Id"); got != correlation {
		t.Errorf("the answer's correlation id is %q", got)
	}
	if job.CorrelationID == nil || *job.CorrelationID != correlation || job.Traceparent == nil {
		t.Fatalf("the job has the correlation id %v and the trace %v", job.CorrelationID, job.Traceparent)
	}
	return job
}

// done waits for a job's end and gives what whoever did it was told.
func (c *traced) done(t *testing.T, id string) (told seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience(time.Minute))
	defer cancel()
	job, err := c.client.Wait(ctx, id)
	if err != nil || job.State != api.StateCompleted {
		t.Fatalf("job %s: %s, %v", id, job.State, err)
	}
	if err := json.Unmarshal(job.Result, &told); err != nil {
		t.Fatalf("result %s: %v", job.Result, err)
	}
	if told.Correlation != correlation {
		t.Errorf("whoever did it was told the correlation id %q", told.Correlation)
	}
	return told
}

// claims takes the job of a queue by hand and gives the trace in the claim.
func (c *traced) claims(t *testing.T, queue string) string {
	t.Helper()
	wait := int64(20_000)
	claimed, err := c.client.Claim(t.Context(), api.ClaimRequest{WorkerID: "by-hand", Queues: []string{queue}, WaitMS: &wait})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("claimed %d jobs, %v", len(claimed.Jobs), err)
	}
	job := claimed.Jobs[0]
	if job.CorrelationID == nil || *job.CorrelationID != correlation || job.Traceparent == nil {
		t.Fatalf("the claim has the correlation id %v and the trace %v", job.CorrelationID, job.Traceparent)
	}
	failed := api.FailRequest{LeaseToken: job.LeaseToken, Error: &api.JobError{Type: "broken", Message: "as the test wants it"}, Permanent: true}
	if _, err := c.client.Fail(t.Context(), job.ID, failed); err != nil {
		t.Fatal(err)
	}
	return *job.Traceparent
}

// logged says whether a line of a log has all the words.
func logged(log string, words ...string) bool {
	return slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
	})
}

// spanOf is the span that a traceparent names.
func spanOf(traceparent string) (trace, span string) {
	if len(traceparent) != len(clientTrace) {
		return "", ""
	}
	return traceparent[3:35], traceparent[36:52]
}

// One trace goes from a client's traceparent through gateway, core, PostgreSQL,
// Redis, a worker's command and a push call, and every span of it hangs together.
func TestOneTraceThroughAll(t *testing.T) {
	t.Parallel()
	spans := collector.New(t)
	c := newTraced(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+spans.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-token=secret-of-the-collector")
	c.startWorker(t)
	pulled, pushed, byHand := c.submit(t, "pulled"), c.submit(t, "pushed"), c.submit(t, "by-hand")
	told := map[string]string{
		"the job": *pulled.Traceparent, "the claim": c.claims(t, "by-hand"),
		"the worker's command": c.done(t, pulled.ID).Traceparent, "the push call": c.done(t, pushed.ID).Traceparent,
	}
	if told["the claim"] != *byHand.Traceparent {
		t.Errorf("the claim has %s, the job %s", told["the claim"], *byHand.Traceparent)
	}

	wanted := []string{
		"forgequeue-gateway: POST /v1/jobs", "forgequeue-gateway: POST /v1/jobs/{id}/complete",
		"forgequeue-core: core submit-jobs", "forgequeue-core: flush submits", "forgequeue-core: core report-outcomes", "forgequeue-core: flush outcomes",
		"forgequeue-core: attempt", "forgequeue-core: push", "forgequeue-worker: process echo",
	}
	var all []collector.Span
	missing := func() []string {
		all = spans.Trace(traceID)
		return slices.DeleteFunc(slices.Clone(wanted), func(name string) bool {
			return slices.ContainsFunc(all, func(s collector.Span) bool { return s.Service+": "+s.Name == name })
		})
	}
	count := func(name string) (n int) {
		for _, span := range all {
			if span.Name == name {
				n++
			}
		}
		return n
	}
	complete := func() bool {
		return len(missing()) == 0 && count("attempt") == 3 && count("POST /v1/jobs") == 3 && len(orphans(all)) == 0
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("missing %v; without a parent %v; all:\n%s", missing(), orphans(all), list(all))
		}
	})
	stack.Eventually(t, time.Minute, "all spans have come, each with its parent", complete)
	for where, traceparent := range told {
		trace, span := spanOf(traceparent)
		if trace != traceID || !slices.ContainsFunc(all, func(s collector.Span) bool { return s.SpanID == span }) {
			t.Errorf("%s has %q, which is no span of this trace", where, traceparent)
		}
	}
	for _, library := range []string{"github.com/exaring/otelpgx", "github.com/redis/go-redis/extra/redisotel"} {
		if !slices.ContainsFunc(all, func(s collector.Span) bool { return s.Scope == library }) {
			t.Errorf("no span of %s", library)
		}
	}
	for _, span := range all {
		ours := span.Scope == "github.com/forgequeue/forgequeue" // Redis says of a script that it does not know it
		if failed := span.Name == "attempt" && span.Attributes["forgequeue.outcome"] == api.KindFail; ours && span.Failed != failed {
			t.Errorf("%s of job %s: failed %v", span.Name, span.Attributes["forgequeue.job.id"], span.Failed)
		}
		if span.Name == "POST /v1/jobs" && (span.Attributes["forgequeue.correlation_id"] != correlation || span.Attributes["http.route"] != "/v1/jobs") {
			t.Errorf("a submit's attributes: %v", span.Attributes)
		}
	}
	if log := c.Gateways[0].Output(); !logged(log, traceID, correlation, `"/v1/jobs"`) {
		t.Errorf("the gateway's log does not tell of the trace")
	}
	if log := c.Cores[0].Output(); !logged(log, traceID, correlation, `"push"`) {
		t.Errorf("core's log does not tell of the trace")
	}
	for _, service := range []*stack.Service{c.Gateways[0], c.Cores[0]} {
		if strings.Contains(service.Output(), "secret-of-the-collector") {
			t.Error("a header of the export is in the log")
		}
	}
	if !slices.ContainsFunc(spans.Headers(), func(h http.Header) bool { return h.Get("X-Token") == "secret-of-the-collector" }) {
		t.Error("the export's own header did not come")
	}
}

// orphans are spans whose parent is neither in the trace nor the client's.
func orphans(all []collector.Span) (names []string) {
	for _, span := range all {
		known := slices.ContainsFunc(all, func(s collector.Span) bool { return s.SpanID == span.ParentID })
		if !known && span.ParentID != clientSpan {
			names = append(names, span.Service+": "+span.Name)
		}
	}
	return names
}

func list(all []collector.Span) string {
	var text strings.Builder
	for _, span := range all {
		fmt.Fprintf(&text, "%s %s ← %s %s\n", span.Service, span.Name, span.ParentID, span.SpanID)
	}
	return text.String()
}

// Where no spans are made, nothing is exported, and what the client sent arrives as
// it was.
func TestWithoutExportATraceGoesThroughUnchanged(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nothing set", "disabled"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := collector.New(t)
			settings := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="}
			if name == "disabled" {
				settings = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + spans.URL, "OTEL_SDK_DISABLED=true"}
			}
			c := newTraced(t, settings...)
			c.startWorker(t)
			pulled, pushed, byHand := c.submit(t, "pulled"), c.submit(t, "pushed"), c.submit(t, "by-hand")
			worker := c.done(t, pulled.ID)
			for where, traceparent := range map[string]string{
				"the job": *byHand.Traceparent, "the claim": c.claims(t, "by-hand"), "the push call": c.done(t, pushed.ID).Traceparent,
				"the command's TRACEPARENT": worker.Traceparent, "its FORGEQUEUE_JOB_TRACEPARENT": worker.Job,
			} {
				if traceparent != clientTrace {
					t.Errorf("%s has %q, the client sent %q", where, traceparent, clientTrace)
				}
			}
			if log := c.Gateways[0].Output(); !logged(log, traceID, correlation, `"/v1/jobs"`) {
				t.Errorf("the gateway's log does not tell of the trace")
			}
			if log := c.Cores[0].Output(); !logged(log, traceID, correlation, `"push"`) {
				t.Errorf("core's log does not tell of the trace")
			}
			for _, service := range []*stack.Service{c.Gateways[0], c.Cores[0]} {
				if code, _ := service.Stop(); code != 0 {
					t.Errorf("exit code %d", code)
				}
			}
			if n := spans.Requests(); n != 0 {
				t.Errorf("%d requests reached the collector", n)
			}
		})
	}
}

// A collector that is not there, or takes connections and says nothing, costs no
// submit, little time at the stop, and few lines.
func TestCollectorAwayCostsNothing(t *testing.T) {
	t.Parallel()
	dead := porttest.Address(t)
	hanging, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hanging.Close() })
	for name, address := range map[string]string{"dead": dead, "hanging": hanging.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTraced(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address, "OTEL_BSP_MAX_QUEUE_SIZE=64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=16")
			for range 200 {
				begun := time.Now()
				if _, err := c.client.Submit(t.Context(), api.SubmitRequest{Type: "none", Queue: "none"}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > stack.Patience(5*time.Second) {
					t.Errorf("a submit took %v", took)
				}
			}
			for _, service := range []*stack.Service{c.Gateways[0], c.Cores[0]} {
				code, took := service.Stop()
				if code != 0 || took > stack.Patience(8*time.Second) {
					t.Errorf("the stop took %v, exit code %d", took, code)
				}
				if n := strings.Count(service.Output(), "exported"); n > 2 {
					t.Errorf("%d lines say that spans are not exported", n)
				}
			}
		})
	}
}
