package console_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/collector"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// mostStatements is what a page may cost PostgreSQL.
const mostStatements = 4

// Every page of the console costs few statements, with something of everything on it: jobs that run, that are blocked,
// that are under caps, a worker that is lost.
func TestPagesCostFewStatements(t *testing.T) {
	t.Parallel()
	spans := collector.New(t)
	settings := stack.PushSettings() // for webhooks
	settings["OTEL_EXPORTER_OTLP_ENDPOINT"], settings["OTEL_BSP_SCHEDULE_DELAY"] = spans.URL, "50"
	c := stack.NewCluster(t, stack.ClusterOptions{Settings: settings})
	acme := fill(t, c, c.NewTenant(t, "acme"))
	pages := slices.Concat(acme.pages(), acme.busyPages(t, c))
	owner, operator := visit(t, c.Gateways[0].URL, acme.tenant.Key), visit(t, c.Gateways[0].URL, stack.Operator)
	asOperator := operatorsPages(acme.tenant.ID)
	allVisited(t, append(slices.Clone(pages), asOperator...))

	// Once in a while a page reads for all what is remembered, such as a key. On a slow machine it is forgotten by the time
	// that all other pages were visited.
	const times = 4
	traces := map[string][]string{}
	trace := func(by *visitor, pages []page, from int) {
		for i, one := range pages {
			for again := range times {
				traces[one.name] = append(traces[one.name], by.traced(one.path, again, from+i))
			}
		}
	}
	trace(owner, pages, 0)
	trace(operator, asOperator, len(pages))
	last := owner.traced("/console/jobs", times, 0)
	stack.Eventually(t, time.Minute, "the spans of core, which it sends in their order", func() bool { return len(statements(spans, last)) > 0 })
	for name, visits := range traces {
		fewest := slices.MinFunc(visits, func(a, b string) int { return len(statements(spans, a)) - len(statements(spans, b)) })
		all := statements(spans, fewest)
		t.Logf("%s: %d", name, len(all))
		if len(all) > mostStatements || len(all) == 0 && name != "session" && name != "installation" {
			t.Errorf("%s: %d statements, want %d at most, and one: %s", name, len(all), mostStatements, strings.Join(all, "\n"))
		}
	}
}

// statements are those of a trace that core has sent so far.
func statements(spans *collector.Collector, trace string) (all []string) {
	for _, span := range spans.Trace(trace) {
		_, prepared := span.Attributes["pgx.prepare_stmt.name"] // as often as there are connections
		if span.Service == "forgequeue-core" && span.Scope == "github.com/exaring/otelpgx" && !prepared {
			all = append(all, span.Attributes["db.query.text"])
		}
	}
	return all
}

// traced visits a page, and gives the id of its trace.
func (v *visitor) traced(path string, round, number int) string {
	v.Helper()
	id := hex.EncodeToString(fmt.Appendf(nil, "pages %4d %5d", round, number))
	request, err := http.NewRequestWithContext(v.Context(), http.MethodGet, v.url+path, nil)
	if err != nil {
		v.Fatal(err)
	}
	request.Header.Set("Traceparent", "00-"+id+"-00f067aa0ba902b7-01")
	if status, text := v.send(request, nil); status != http.StatusOK {
		v.Fatalf("%s: %d %s", path, status, text)
	}
	return id
}

// busyPages are pages of jobs that run, are blocked, or wait under caps, and others that cost more than those of a quiet
// tenant.
func (d *data) busyPages(t *testing.T, c *stack.Cluster) []page {
	t.Helper()
	ctx := t.Context()
	many := new(int64(1000))
	limits := api.Limits{MaxActive: many, MaxRunning: many, UserMaxActive: many, UserMaxRunning: many}
	if _, err := c.Client(t, stack.Operator).PatchTenant(ctx, d.tenant.ID, api.TenantPatch{Overrides: &api.Overrides{Limits: limits}}); err != nil {
		t.Fatal(err)
	}
	held := api.QueueRequest{VisibilityTimeoutMS: new(int64(600_000)), MaxRunning: many, RatePerSecond: new(100.0)}
	if _, err := d.client.PutQueue(ctx, "held", held); err != nil {
		t.Fatal(err)
	}
	submit := func() string {
		return stack.Submit(t, d.client, api.SubmitRequest{Type: "long", Queue: "held", User: new("ada")})
	}
	submit()
	running := stack.ClaimOne(t, d.client, "lost", "held").ID
	stack.Exec(ctx, t, c.DatabaseURL, `UPDATE workers SET status = 'STALE', last_heartbeat_at = now() - interval '1 minute' WHERE worker_id = 'lost'`)
	waiting := submit()
	workflow, err := d.client.GetWorkflow(ctx, d.workflow)
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]string{}
	for _, one := range workflow.Jobs {
		jobs[one.Ref] = one.ID
	}
	// For a minute after a cap is set, its jobs are counted at each look.
	stack.Exec(ctx, t, c.DatabaseURL, `UPDATE usage_counts SET settled = true`)
	redrive, err := d.client.RedriveMatching(ctx, api.DeadLetterFilter{Type: "none"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	d.redrive = redrive.ID
	bulk, err := d.client.Bulk(ctx, api.BulkRequest{Action: api.BulkMove, Filter: api.BulkFilter{Type: new("none")}, To: &api.BulkTarget{Queue: new("slow")}})
	if err != nil {
		t.Fatal(err)
	}
	d.bulk = bulk.ID
	if _, err := d.client.PutWebhook(ctx, "alerts", api.WebhookRequest{URL: "https://example.com/hook", Events: []string{api.EventJobDeadLetter}}); err != nil {
		t.Fatal(err)
	}
	_, text := visit(t, c.Gateways[0].URL, d.tenant.Key).get("/console")
	if !strings.Contains(text, "A worker has jobs and sends no heartbeat") {
		t.Errorf("the overview does not tell of the lost worker: %s", text)
	}
	if _, text := visit(t, c.Gateways[0].URL, d.tenant.Key).get("/console/jobs/" + running); !strings.Contains(text, "The worker lost has sent no heartbeat since ") {
		t.Errorf("the job does not tell of its lost worker: %s", text)
	}
	return []page{
		{"job-running", "/console/jobs/" + running},
		{"job-capped", "/console/jobs/" + waiting},
		{"job-of-workflow", "/console/jobs/" + jobs["extract"]},
		{"job-blocked", "/console/jobs/" + jobs["load"]},
		{"queue-held", "/console/queues/held"},
		{"redrive", "/console/redrives/" + redrive.ID},
		{"bulk", "/console/bulk/" + bulk.ID},
		{"webhooks", "/console/webhooks"},
		{"overview-day", "/console?span=day"},
	}
}

func operatorsPages(tenant string) []page {
	return []page{
		{"tenants", "/console/admin/tenants"},
		{"tenant", "/console/admin/tenants/" + tenant},
		{"plans", "/console/admin/plans"},
		{"installation", "/console/admin/installation"},
		{"admin-audit", "/console/admin/audit"},
	}
}

// allVisited says which of the console's pages are missing. A search leads to another page.
func allVisited(t *testing.T, pages []page) {
	t.Helper()
	source, err := os.ReadFile("../../gateway/internal/console/console.go")
	if err != nil {
		t.Fatal(err)
	}
	routes := regexp.MustCompile(`"GET (/console[^"]*)": +c\.Page\(`).FindAllStringSubmatch(string(source), -1)
	if len(routes) < 20 {
		t.Fatalf("%d routes", len(routes))
	}
	for _, route := range routes {
		pattern := regexp.MustCompile("^" + regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(route[1], "[^/]+") + "$")
		visited := func(one page) bool { path, _, _ := strings.Cut(one.path, "?"); return pattern.MatchString(path) }
		if route[1] != "/console/search" && !slices.ContainsFunc(pages, visited) {
			t.Errorf("no page of %s is visited", route[1])
		}
	}
}
