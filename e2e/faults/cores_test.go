package faults_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Two cores with a gateway each share the work: no job is done twice, what the
// services have counted is what is on record, and afterwards nothing is left over.
func TestTwoCoresUnderLoad(t *testing.T) {
	furtherFault(t, "TestRollingRestart")
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2})
	l := newLoad(t, c, 5*time.Second)
	stopWatch := l.watchLeases()
	round := func() {
		stopWork := l.work(6, 5*time.Millisecond)
		stopSubmits := l.produce(8, lane(300, 60_000), 5*time.Millisecond)
		pace(t.Context(), time.Duration(lane(1, 120))*time.Second)
		stopSubmits()
		l.drain(90 * time.Second)
		stopWork()
		l.closeIdle()
	}
	round() // pools and caches fill up
	before := resources(c)
	round()
	stopWatch()
	h, db := l.history(), l.database()
	stack.Eventually(t, time.Minute, "goroutines and files are back at their baseline", func() bool {
		db.Resources = db.Resources[:0]
		for name, after := range resources(c) {
			db.Resources = append(db.Resources, invariants.Resource{Name: name, Before: before[name], After: after, Slack: 12})
		}
		return len(invariants.Quiet(h, db)) == 0
	})
	var err error
	if db.RedisWithoutTTL, err = invariants.RedisWithoutTTL(t.Context(), c.RedisURL); err != nil {
		t.Fatal(err)
	}
	db.Counters = map[string]float64{}
	for _, core := range c.Cores {
		db.Counters["submitted"] += core.Metric("forgequeue_jobs_submitted_total")
		db.Counters["completed"] += core.Metric(`forgequeue_job_outcomes_total{kind="complete"}`)
		db.Counters["dead_lettered"] += core.Metric("forgequeue_jobs_dead_lettered_total")
		if core.Metric("forgequeue_jobs_claimed_total") == 0 {
			t.Error("one of the cores did nothing")
		}
	}
	l.judge(h, db)
	t.Logf("%v; %v", db.Counters, db.Resources)
}

func resources(c *stack.Cluster) map[string]float64 {
	all := map[string]float64{}
	for kind, services := range map[string][]*stack.Service{"core": c.Cores, "gateway": c.Gateways} {
		for i, s := range services {
			for _, metric := range []string{"go_goroutines", "process_open_fds"} {
				all[fmt.Sprint(metric, " of ", kind, " ", i)] = s.Metric(metric)
			}
		}
	}
	return all
}

// Two tenants use the same names at the same time. What one knows of the other's
// jobs, even their ids and lease tokens, opens nothing.
func TestTenantsSeeNothingOfEachOther(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	a := newLoad(t, c, stack.Patience(time.Minute)) // longer than all of the probes take
	b := a.beside()
	owner, stranger := a.client(), b.client()
	held := make([]api.ClaimedJob, 0, 3)
	for range 3 {
		a.submit(t.Context(), owner)
		claimed, err := owner.Claim(t.Context(), api.ClaimRequest{WorkerID: "owner", Queues: []string{loadQueue}})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, claimed.Jobs...)
	}
	if len(held) != 3 {
		t.Fatalf("claimed %d jobs", len(held))
	}
	plain := b.noted.Client(b.tenant.ID, http.DefaultTransport)
	const nobody = "01890000-0000-7000-8000-000000000000"
	for i, job := range held {
		token := fmt.Sprintf(`{"lease_token":%q}`, job.LeaseToken)
		for _, probe := range []struct{ method, path, body string }{
			{http.MethodGet, "/v1/jobs/%s", ""},
			{http.MethodGet, "/v1/jobs/%s/attempts", ""},
			{http.MethodPost, "/v1/jobs/%s/cancel", ""},
			{http.MethodPost, "/v1/jobs/%s/redrive", ""},
			{http.MethodPost, "/v1/jobs/%s/complete", token},
			{http.MethodPost, "/v1/jobs/%s/fail", token},
			{http.MethodPost, "/v1/jobs/%s/release", token},
			{http.MethodPost, "/v1/jobs/%s/snooze", fmt.Sprintf(`{"lease_token":%q,"delay_ms":1}`, job.LeaseToken)},
		} {
			foreign := b.probe(plain, probe.method, fmt.Sprintf(probe.path, job.ID), probe.body)
			unknown := b.probe(plain, probe.method, fmt.Sprintf(probe.path, nobody), probe.body)
			if foreign.status != http.StatusNotFound || foreign != unknown {
				t.Errorf("%s %s: a foreign id gets %v, an unknown one %v", probe.method, probe.path, foreign, unknown)
			}
		}
		beat, err := stranger.Heartbeat(t.Context(), "stranger", []api.Lease{{JobID: job.ID, LeaseToken: job.LeaseToken}})
		if err == nil && beat.Leases[0].Status != api.LeaseLost {
			t.Errorf("a stranger's heartbeat, %d: %+v", i, beat)
		}
	}
	for _, list := range []string{
		"/v1/jobs", "/v1/jobs?queue=" + loadQueue, "/v1/dead-letters", "/v1/dead-letters/groups",
		"/v1/redrives", "/v1/audit", "/v1/workers", "/v1/queues",
	} {
		b.probe(plain, http.MethodGet, list, "") // its marks are what matters
	}
	for _, job := range held {
		if _, err := owner.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
			t.Errorf("the owner itself: %v", err)
		}
	}
	a.setVisibility(5 * time.Second)
	stops := []func(){a.work(2, 0), b.work(2, 0)}
	submits := []func(){a.produce(3, 150, 5*time.Millisecond), b.produce(3, 150, 5*time.Millisecond)}
	pace(t.Context(), 3*time.Second)
	for _, stop := range submits {
		stop()
	}
	a.drain(60 * time.Second)
	for _, stop := range stops {
		stop()
	}
	a.check()
}
