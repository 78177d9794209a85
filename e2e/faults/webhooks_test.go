package faults_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Two cores are killed in turn while jobs end in each way. There is exactly one delivery of each end: none is
// lost, none is made twice, and what is called more than once has the same webhook-id.
func TestCoresKilledAmongWebhooks(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	cycles := lane(6, 300)
	c := pushCluster(t, stack.ClusterOptions{Cores: 2})
	l := newLoad(t, c, 2*time.Second)
	received := newMessages(t)
	producer := c.Client(t, l.tenant.Key)
	if _, err := producer.PutWebhook(t.Context(), "all", api.WebhookRequest{
		URL: received.URL, Events: []string{api.EventJobCompleted, api.EventJobDeadLetter, api.EventJobCancelled, api.EventWorkflowEnded},
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var working, submitting sync.WaitGroup
	for range 3 {
		working.Go(func() { workOnDiamonds(ctx, c.Client(t, l.tenant.Key)) })
	}
	submits, stopSubmits := context.WithCancel(ctx)
	defer stopSubmits()
	submitting.Go(func() { submitEnds(submits, producer) })
	for i := range cycles {
		pace(t.Context(), moment(200*time.Millisecond, 900*time.Millisecond))
		victim := c.Cores[i%2]
		if !victim.Kill() {
			t.Errorf("it had ended before it was killed:\n%s", victim.Output())
		}
		victim.Start()
		victim.AwaitReady()
		c.Gateways[0].AwaitReady()
	}
	count := func(sql string) int {
		t.Helper()
		return stack.Query[int](t.Context(), t, c.DatabaseURL, sql)[0]
	}
	const ownEnds = `(SELECT id, 'job.' || state AS kind FROM finished_jobs WHERE queue NOT LIKE '\_%' UNION ALL SELECT id, 'job.dead_letter' FROM dead_letters WHERE queue NOT LIKE '\_%')`
	stack.Eventually(t, time.Minute, "jobs have ended in each way", func() bool {
		return count(`SELECT count(DISTINCT kind)::integer FROM `+ownEnds+` AS e`) == 3
	})
	stopSubmits()
	submitting.Wait()
	l.drain(90 * time.Second)
	stop()
	working.Wait()
	stack.Eventually(t, 90*time.Second, "all events are delivered", func() bool {
		return count(`SELECT (SELECT count(*) FROM webhook_events)::integer + (SELECT count(*) FROM jobs)::integer`) == 0
	})
	// A delivery is where jobs are when they have ended.
	const deliveries = `(SELECT id, type, metadata::jsonb FROM finished_jobs WHERE queue = '_webhook.all' AND state = 'completed')`
	for what, sql := range map[string]string{
		"ends have not exactly one delivery": `SELECT count(*)::integer FROM (
			SELECT e.id, e.kind FROM ` + ownEnds + ` AS e LEFT JOIN ` + deliveries + ` AS d ON d.type = e.kind AND d.metadata->>'job_id' = e.id::text
			GROUP BY e.id, e.kind HAVING count(d.id) <> 1) AS wrong`,
		"deliveries are of no end": `SELECT count(*)::integer FROM ` + deliveries + ` AS d WHERE type <> 'workflow.ended'
			AND NOT EXISTS (SELECT FROM ` + ownEnds + ` AS e WHERE d.type = e.kind AND d.metadata->>'job_id' = e.id::text)`,
		"workflows have not exactly one delivery": `SELECT count(*)::integer FROM (
			SELECT w.id FROM workflows w LEFT JOIN ` + deliveries + ` AS d ON d.metadata->>'workflow_id' = w.id::text GROUP BY w.id HAVING count(d.id) <> 1) AS wrong`,
		"deliveries have not completed": `SELECT (SELECT count(*) FROM dead_letters WHERE queue LIKE '\_%')::integer + (SELECT count(*) FROM finished_jobs WHERE queue LIKE '\_%' AND state <> 'completed')::integer`,
	} {
		if n := count(sql); n > 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	ends, made := count(`SELECT count(*)::integer FROM `+ownEnds+` AS e`)+count(`SELECT count(*)::integer FROM workflows`), count(`SELECT count(*)::integer FROM `+deliveries+` AS d`)
	messages, calls := received.counts(t)
	if ends == 0 || messages != made {
		t.Errorf("%d ends, %d deliveries, %d messages received", ends, made, messages)
	}
	if lines := c.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
	t.Logf("FIGURE kills=%d ends=%d deliveries=%d messages=%d calls=%d", cycles, ends, made, messages, calls)
}

// submitEnds submits workflows of which some fail, and cancels others, until ctx ends.
func submitEnds(ctx context.Context, producer *client.Client) {
	for i := 0; ctx.Err() == nil; i++ {
		made, err := producer.SubmitWorkflow(ctx, diamondOf(i%4 == 0))
		if err == nil && i%5 == 1 {
			_, _ = producer.CancelWorkflow(ctx, made.ID)
		}
		pace(ctx, 10*time.Millisecond)
	}
}

// messages is an endpoint that notes what it has got, by webhook-id.
type messages struct {
	*httptest.Server
	mu    sync.Mutex
	by    map[string]string
	calls int
	wrong []string
}

func newMessages(t *testing.T) *messages {
	t.Helper()
	m := &messages{by: map[string]string{}}
	m.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var event api.WebhookEvent
		id := r.Header.Get("webhook-id")
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls++
		if known, seen := m.by[id]; json.Unmarshal(body, &event) != nil || event.Type == "" || seen && known != string(body) {
			m.wrong = append(m.wrong, id+": "+string(body))
		}
		m.by[id] = string(body)
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *messages) counts(t *testing.T) (messages, calls int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.wrong) > 0 {
		t.Errorf("%d calls are wrong, or differ from an earlier one with the same webhook-id: %s", len(m.wrong), m.wrong[0])
	}
	return len(m.by), m.calls
}
