package faults_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// The only core is killed in each phase of a redrive with a canary: while its sample is queued, while it is
// waited for, and in the rest. Every dead letter rises once, the sample first, the rest after it has passed;
// and not at all where it does not pass.
func TestCanarySurvivesKilledCores(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	n, sample, rate := lane(120, 2000), lane(30, 300), lane(15, 100)
	cluster := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, cluster, 10*time.Second)
	c := l.client()
	l.bury(c, n, "load")
	l.bury(c, n/4, "junk")
	kill := func() {
		t.Helper()
		if !cluster.Cores[0].Kill() {
			t.Fatal("there was no core to kill")
		}
		cluster.Cores[0].Start()
		cluster.Cores[0].AwaitReady()
		cluster.Gateways[0].AwaitReady()
	}
	redrivenOf := func(kind string) int {
		t.Helper()
		return stack.Query[int](t.Context(), t, cluster.DatabaseURL,
			`SELECT (SELECT count(*) FROM jobs WHERE redrives > 0 AND type = '`+kind+`')::integer
			      + (SELECT count(*) FROM finished_jobs WHERE redrives > 0 AND type = '`+kind+`')::integer`)[0]
	}

	// One that stops.
	careful := api.CanaryRequest{Count: n / 8, Success: 0.9}
	junk, err := c.RedriveWithCanary(t.Context(), api.DeadLetterFilter{Type: "junk"}, 0, careful)
	if err != nil {
		t.Fatal(err)
	}
	kill()
	redriven(t, c, junk.ID, time.Minute, func(r api.Redrive) bool { return r.Canary.State == api.CanaryWaiting && r.Canary.Waiting == n/8 })
	kill()
	l.kill(c, n/8)
	over := redriven(t, c, junk.ID, time.Minute, ended)
	if over.State != api.RedriveStopped || over.Done != int64(n/8) || over.Canary.State != api.CanaryFailed || over.Canary.Reason == nil || redrivenOf("junk") != 0 {
		t.Errorf("it ended as %+v, %+v", over, over.Canary)
	}

	// One that passes.
	careful.Count = sample
	made, err := c.RedriveWithCanary(t.Context(), api.DeadLetterFilter{Type: "load"}, float64(rate), careful)
	if err != nil || made.Matched != int64(n) {
		t.Fatalf("%+v, %v", made, err)
	}
	before := redriven(t, c, made.ID, time.Minute, func(r api.Redrive) bool { return r.Canary.Sampled > 0 })
	kill()
	if before.Canary.State != api.CanarySampling {
		t.Logf("the kill came after the sample was queued: %+v", before.Canary)
	}
	redriven(t, c, made.ID, 2*time.Minute, func(r api.Redrive) bool { return r.Canary.State == api.CanaryWaiting && r.Canary.Sampled == sample })
	kill()
	if got := redrivenOf("load"); got != sample {
		t.Errorf("%d were queued before the sample of %d has passed", got, sample)
	}
	stopWork := l.work(2, 5*time.Millisecond)
	before = redriven(t, c, made.ID, time.Minute, func(r api.Redrive) bool {
		if r.Canary.State != api.CanaryPassed && r.Done != int64(sample) {
			t.Errorf("the rest began while the sample was %+v", r.Canary)
		}
		return r.Done > int64(sample)
	})
	kill()
	if ended(before) {
		t.Logf("the kill came after the end: %+v", before)
	}
	over = redriven(t, c, made.ID, time.Minute+5*time.Duration(n/rate)*time.Second, ended)
	if over.State != api.RedriveDone || over.Done != int64(n) || over.Refused != 0 || over.Canary.Completed != sample || over.Canary.State != api.CanaryPassed {
		t.Errorf("it ended as %+v, %+v", over, over.Canary)
	}
	l.drain(5 * time.Minute)
	stopWork()
	once := stack.Query[int](t.Context(), t, cluster.DatabaseURL, `SELECT count(*)::integer FROM finished_jobs WHERE redrives = 1 AND type = 'load'`)[0]
	others := stack.Query[int](t.Context(), t, cluster.DatabaseURL, `SELECT count(*)::integer FROM finished_jobs WHERE redrives <> 1 OR type <> 'load'`)[0]
	dead := stack.Query[int](t.Context(), t, cluster.DatabaseURL, `SELECT count(*)::integer FROM dead_letters WHERE type = 'junk'`)[0]
	left := stack.Query[int](t.Context(), t, cluster.DatabaseURL, `SELECT count(*)::integer FROM redrive_samples`)[0]
	if once != n || others != 0 || dead != n/4 || left != 0 {
		t.Errorf("%d rose once, want %d; %d otherwise; %d are dead, want %d; %d rows of samples are left", once, n, others, dead, n/4, left)
	}
	l.check()
}
