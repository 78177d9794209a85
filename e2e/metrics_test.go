package e2e_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// mixed is a tenant whose jobs end in every way that there is, each step by way of
// another core than the one before.
type mixed struct {
	*testing.T
	cluster *stack.Cluster
	tenant  stack.Tenant
	clients []*client.Client
	turn    int
}

func newMixed(t *testing.T) *mixed {
	t.Helper()
	m := &mixed{T: t, cluster: stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2})}
	m.tenant = m.cluster.NewTenant(t, "mixed")
	for _, gateway := range m.cluster.Gateways {
		made, err := client.New(client.Options{URL: gateway.URL, APIKey: m.tenant.Key})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.CloseIdleConnections)
		m.clients = append(m.clients, made)
	}
	m.cluster.SetQueue(t, m.tenant, "short", map[string]any{"visibility_timeout_ms": 1000})
	m.cluster.SetQueue(t, m.tenant, "held", map[string]any{"visibility_timeout_ms": 600_000})
	return m
}

func (m *mixed) next() *client.Client {
	m.turn++
	return m.clients[m.turn%len(m.clients)]
}

// submitted makes jobs of a queue.
func (m *mixed) submitted(n int, request api.SubmitRequest) (ids []string) {
	m.Helper()
	request.Type = "test"
	for range n {
		ids = append(ids, stack.Submit(m.T, m.next(), request))
	}
	return ids
}

// claimed takes a queue's next job.
func (m *mixed) claimed(queue string) api.ClaimedJob {
	m.Helper()
	got, err := m.next().Claim(m.Context(), api.ClaimRequest{WorkerID: "w", Queues: []string{queue}, WaitMS: new(int64(20_000))})
	if err != nil || len(got.Jobs) != 1 {
		m.Fatalf("claim from %s: %+v, %v", queue, got, err)
	}
	return got.Jobs[0]
}

// ends ends attempts of a queue's jobs, one after the other.
func (m *mixed) ends(queue string, outcomes ...api.OutcomeRequest) {
	m.Helper()
	for _, outcome := range outcomes {
		job := m.claimed(queue)
		outcome.JobID, outcome.LeaseToken = job.ID, job.LeaseToken
		answer, err := m.next().Outcomes(m.Context(), []api.OutcomeRequest{outcome})
		if err != nil || answer.Results[0].Problem != nil {
			m.Fatalf("%s of %s: %+v, %v", outcome.Kind, queue, answer, err)
		}
	}
}

// must is for calls of which only the error matters.
func must[T any](t *testing.T, _ T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dead makes dead letters of n jobs of a queue.
func (m *mixed) dead(queue string, n int) []string {
	m.Helper()
	ids := m.submitted(n, api.SubmitRequest{Queue: queue})
	for range n {
		m.ends(queue, api.OutcomeRequest{Kind: api.KindFail, Permanent: true, Error: &api.JobError{Type: "t", Message: "m"}})
	}
	return ids
}

func (m *mixed) live() {
	m.Helper()
	t, complete := m.T, api.OutcomeRequest{Kind: api.KindComplete}
	fail := api.OutcomeRequest{Kind: api.KindFail, RetryAfterMS: new(int64(1)), Error: &api.JobError{Type: "t", Message: "m"}}
	m.submitted(3, api.SubmitRequest{Queue: "done"})
	m.ends("done", complete, complete, complete)
	m.submitted(1, api.SubmitRequest{Queue: "again"})
	m.ends("again", fail, api.OutcomeRequest{Kind: api.KindSnooze, DelayMS: new(int64(1))}, api.OutcomeRequest{Kind: api.KindRelease}, complete)
	m.submitted(1, api.SubmitRequest{Queue: "spent", MaxAttempts: new(1)})
	m.ends("spent", fail)

	waiting := m.submitted(1, api.SubmitRequest{Queue: "unwanted"})[0]
	for range 2 { // the repeat is none
		got, err := m.next().Cancel(t.Context(), waiting)
		must(t, got, err)
	}
	running := m.submitted(1, api.SubmitRequest{Queue: "stopped"})[0]
	held := m.claimed("stopped")
	got, err := m.next().Cancel(t.Context(), running)
	must(t, got, err)
	released, err := m.next().Release(t.Context(), running, api.ReleaseRequest{LeaseToken: held.LeaseToken})
	must(t, released, err)

	m.dead("kept", 1)
	summary, err := m.next().Redrive(t.Context(), m.dead("risen", 1)[0])
	must(t, summary, err)
	m.ends("risen", complete)
	gone, err := m.next().DiscardDeadLetters(t.Context(), m.dead("gone", 2))
	must(t, gone, err)
	m.dead("swept", 3)
	redriver := m.next()
	swept, err := redriver.DiscardMatching(t.Context(), api.DeadLetterFilter{Queue: "swept"}, 0)
	must(t, swept, err)
	stack.Eventually(t, time.Minute, "the redrive to end", func() bool {
		seen, err := redriver.GetRedrive(t.Context(), swept.ID)
		return err == nil && seen.State != api.RedriveRunning
	})

	m.submitted(1, api.SubmitRequest{Queue: "short"})
	m.claimed("short") // and never heard of again
	m.ends("short", complete)
	m.submitted(1, api.SubmitRequest{Queue: "short", MaxAttempts: new(1)})
	m.claimed("short")
	m.submitted(1, api.SubmitRequest{Queue: "late", DelayMS: new(int64(3_600_000)), Deadline: &api.Time{Time: time.Now().Add(time.Second)}})

	m.submitted(2, api.SubmitRequest{Queue: "open"})
	m.submitted(1, api.SubmitRequest{Queue: "open", DelayMS: new(int64(3_600_000))})
	m.submitted(1, api.SubmitRequest{Queue: "held"})
	m.claimed("held")
}

// I13: after a mixed life the metrics, summed over cores, agree with each other and
// with the tables, and every core shows what is there.
func TestMetricsAgreeAfterAMixedLife(t *testing.T) {
	t.Parallel()
	m := newMixed(t)
	before := m.series()
	m.live()
	stack.Eventually(t, time.Minute, "the deadline and the lost worker to be seen", func() bool {
		return m.sum(`forgequeue_jobs_dead_lettered_total{reason="deadline"}`)+m.sum(`forgequeue_jobs_dead_lettered_total{reason="worker_lost"}`) == 2
	})
	for name, want := range map[string]float64{
		"forgequeue_jobs_submitted_total": 21, `forgequeue_job_outcomes_total{kind="complete"}`: 6,
		"forgequeue_jobs_cancelled_total": 2, "forgequeue_jobs_discarded_total": 5,
		`forgequeue_job_outcomes_total{kind="fail"}`: 9, `forgequeue_jobs_dead_lettered_total{reason="permanent"}`: 7,
		`forgequeue_jobs_dead_lettered_total{reason="exhausted"}`: 1, `forgequeue_jobs_dead_lettered_total{reason="worker_lost"}`: 1,
		`forgequeue_jobs_dead_lettered_total{reason="deadline"}`: 1, `forgequeue_jobs_requeued_total{reason="redrive"}`: 1,
		`forgequeue_jobs_requeued_total{reason="fail"}`: 1, `forgequeue_jobs_requeued_total{reason="snooze"}`: 1,
		`forgequeue_jobs_requeued_total{reason="release"}`: 1, `forgequeue_jobs_requeued_total{reason="lease_expired"}`: 1,
		"forgequeue_workers_registered_total": 1, "forgequeue_job_execution_seconds_count": 6,
	} {
		if got := m.sum(name); got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	open := stack.Query[int](t.Context(), t, m.cluster.DatabaseURL, `SELECT count(*)::integer FROM jobs`)[0]
	dead := stack.Query[int](t.Context(), t, m.cluster.DatabaseURL, `SELECT count(*)::integer FROM dead_letters`)[0]
	if counted := m.sum("forgequeue_jobs_dead_lettered_total") - m.sum(`forgequeue_jobs_requeued_total{reason="redrive"}`) - m.sum("forgequeue_jobs_discarded_total"); counted != float64(dead) {
		t.Errorf("by the metrics there are %v dead letters, not %d", counted, dead)
	}
	ends := m.sum(`forgequeue_job_outcomes_total{kind="complete"}`) + m.sum("forgequeue_jobs_cancelled_total") + m.sum("forgequeue_jobs_discarded_total")
	if submitted := m.sum("forgequeue_jobs_submitted_total"); submitted != ends+float64(dead+open) {
		t.Errorf("%v were submitted, %v have ended, %d are dead and %d open", submitted, ends, dead, open)
	}
	for _, core := range m.cluster.Cores {
		stack.Eventually(t, time.Minute, "the depths to be looked at", func() bool {
			return core.Metric(`forgequeue_jobs{state="queued"}`) == 2 && core.Metric(`forgequeue_jobs{state="scheduled"}`) == 1 &&
				core.Metric(`forgequeue_jobs{state="running"}`) == 1 && core.Metric(`forgequeue_jobs{state="dead_letter"}`) == float64(dead) &&
				core.Metric(`forgequeue_workers{status="active"}`) == 1 && core.Metric("forgequeue_oldest_queued_age_seconds") > 0
		})
	}
	for series := range m.series() {
		if !before[series] && !strings.Contains(series, "request_duration") {
			t.Errorf("%s was not there from the start, at 0", series)
		}
	}
	m.documented()
}

// sum adds up a metric of both cores.
func (m *mixed) sum(name string) (sum float64) {
	m.Helper()
	for _, core := range m.cluster.Cores {
		sum += core.Metric(name)
	}
	return sum
}

// services are all that have metrics.
func (m *mixed) services() []*stack.Service {
	return append(m.cluster.Cores[:2:2], m.cluster.Gateways...)
}

// series lists what is scraped of our own metrics, with labels.
func (m *mixed) series() map[string]bool {
	m.Helper()
	all := map[string]bool{}
	for _, service := range m.services() {
		_, text := stack.Call(m, http.MethodGet, service.Metrics, "none", nil)
		for _, line := range regexp.MustCompile(`(?m)^(forgequeue_.*) \S+$`).FindAllStringSubmatch(string(text), -1) {
			all[line[1]] = true
		}
	}
	return all
}

// documented looks for every metric of the running services in api-docs/metrics.md.
func (m *mixed) documented() {
	m.Helper()
	page, err := os.ReadFile(stack.Repository("api-docs", "metrics.md"))
	if err != nil {
		m.Fatal(err)
	}
	for _, service := range m.services() {
		_, text := stack.Call(m, http.MethodGet, service.Metrics, "none", nil)
		types := regexp.MustCompile(`(?m)^# TYPE (forgequeue_\w+) (\w+)$`).FindAllStringSubmatch(string(text), -1)
		if len(types) == 0 {
			m.Error("a service has no metrics")
		}
		for _, one := range types {
			if !strings.Contains(string(page), "- `"+one[1]+"` ("+one[2]) {
				m.Errorf("%s, a %s, is not on the page of metrics", one[1], one[2])
			}
		}
	}
}
