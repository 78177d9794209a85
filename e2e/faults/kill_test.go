package faults_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// moment is a random one, so that kills fall anywhere into requests.
func moment(least, most time.Duration) time.Duration { return least + rand.N(most-least) }

func TestCoreKilledUnderLoad(t *testing.T) {
	t.Parallel()
	killedUnderLoad(t, func(c *stack.Cluster) *stack.Service { return c.Cores[0] })
}

func TestGatewayKilledUnderLoad(t *testing.T) {
	t.Parallel()
	killedUnderLoad(t, func(c *stack.Cluster) *stack.Service { return c.Gateways[0] })
}

// killedUnderLoad kills a service again and again while jobs come in and are done:
// what was accepted is done, what was done is done once.
func killedUnderLoad(t *testing.T, victim func(*stack.Cluster) *stack.Service) {
	t.Helper()
	cycles := lane(3, 300)
	c := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, c, 2*time.Second)
	stopWork := l.work(4, 10*time.Millisecond)
	stopSubmits := l.produce(8, cycles*600, 10*time.Millisecond)
	killed := 0
	for range cycles {
		pace(t.Context(), moment(200*time.Millisecond, 900*time.Millisecond))
		if victim(c).Kill() {
			killed++
		} else {
			t.Errorf("it had ended before it was killed:\n%s", victim(c).Output())
		}
		victim(c).Start()
		victim(c).AwaitReady()
		c.Gateways[0].AwaitReady()
	}
	stopSubmits()
	l.drain(90 * time.Second)
	stopWork()
	h, _ := l.check()
	if killed < cycles || h.Count(disturbed) == 0 {
		t.Errorf("%d kills of %d, %d requests disturbed", killed, cycles, h.Count(disturbed))
	}
	t.Logf("killed %d times", killed)
}

func TestWorkerKilledUnderLoad(t *testing.T) {
	furtherFault(t, "TestWorkerPausedPastItsLease")
	t.Parallel()
	cycles := lane(3, 300)
	c := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, c, 2*time.Second)
	stopWatch := l.watchLeases()
	plan := workerPlan{Mode: "loop", Max: 8, HoldMS: lane(200, 60)} // few kills are meant to find a job each
	workers := []*stack.Process{l.process(plan), l.process(plan), l.process(plan)}
	stopSubmits := l.produce(4, cycles*300, 15*time.Millisecond)
	killed := 0
	for i := range cycles {
		pace(t.Context(), moment(300*time.Millisecond, 900*time.Millisecond))
		victim := i % len(workers)
		workers[victim].Kill()
		killed++
		workers[victim] = l.process(plan)
	}
	stopSubmits()
	l.drain(90 * time.Second)
	stopWatch()
	for _, w := range workers {
		if code := w.Stop(t); code != 0 {
			t.Errorf("exit code %d\n%s", code, w.Output())
		}
	}
	_, db := l.check()
	orphans := expired(db)
	if orphans == 0 {
		t.Error("no kill fell into a job")
	}
	t.Logf("killed %d times, %d jobs lost their worker", killed, orphans)
}
