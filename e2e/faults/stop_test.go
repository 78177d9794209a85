package faults_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Core and gateway are told to stop under load, again and again: each ends its
// requests, exits with 0 within its grace, and no attempt is spent.
func TestServicesStopUnderLoad(t *testing.T) {
	furtherFault(t, "TestRollingRestart")
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, c, stack.Patience(20*time.Second)) // a lease that nobody gave back would show
	stopWork := l.work(4, 20*time.Millisecond)
	stopSubmits := l.produce(6, 50_000, 10*time.Millisecond)
	var slowest time.Duration
	for range lane(2, 50) {
		for _, s := range []*stack.Service{c.Gateways[0], c.Cores[0]} {
			pace(t.Context(), moment(300*time.Millisecond, 900*time.Millisecond))
			code, took := s.Stop()
			if code != 0 || took > stack.Patience(15*time.Second) { // a grace of 10 s, with patience
				t.Errorf("%s: exit code %d after %v\n%s", s.URL, code, took, s.Output())
			}
			slowest = max(slowest, took)
			s.Start()
			s.AwaitReady()
			c.Gateways[0].AwaitReady()
		}
	}
	stopSubmits()
	l.drain(90 * time.Second)
	stopWork()
	h, db := l.check()
	doubts := map[string]int{}
	for _, e := range h.Events {
		if unknown(e) {
			doubts[e.Op+" "+e.Kind]++
		}
	}
	for _, a := range db.Attempts {
		if a.Kind != "failed" {
			t.Errorf("a stop has cost job %s its attempt %d (%s)", a.Job, a.Attempt, a.Kind)
		}
	}
	t.Logf("the slowest stop took %v; outcomes unknown: %v", slowest.Round(time.Millisecond), doubts)
}

// A worker is told to stop in mid-job: its jobs are back at once, attempts included.
func TestWorkerStopsInMidJob(t *testing.T) {
	furtherFault(t, "TestWorkerPausedPastItsLease")
	t.Parallel()
	const jobs = 3
	c := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, c, 60*time.Second)
	w := l.process(workerPlan{Mode: "sdk", Max: jobs, HoldMS: 60_000})
	producer := l.client()
	for range jobs {
		l.submit(t.Context(), producer)
		if _, err := w.FirstLine(20 * time.Second); err != nil {
			t.Fatalf("the worker started nothing: %v\n%s", err, w.Output())
		}
	}
	begun := time.Now()
	if code := w.Stop(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, w.Output())
	}
	if took := time.Since(begun); took > stack.Patience(15*time.Second) { // a grace of 1 s, and at most 8 s after it
		t.Errorf("it took %v", took)
	}
	db := l.database()
	for _, r := range db.Rows {
		if r.State != api.StateQueued || r.Attempt != 0 || r.Epoch != 1 {
			t.Errorf("a job of the stopped worker: %+v", r)
		}
	}
	if len(db.Rows) != jobs || len(db.Attempts) != 0 {
		t.Errorf("%d jobs, %d attempts on record", len(db.Rows), len(db.Attempts))
	}
	stopWork := l.work(1, 0)
	l.drain(30 * time.Second)
	stopWork()
	l.check()
}
