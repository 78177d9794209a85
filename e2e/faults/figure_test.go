package faults_test

import (
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// The figure of issue 3, only with FORGEQUEUE_FAULTS=figure: 64 goroutines submit
// 1,000 jobs each (FORGEQUEUE_FIGURE_JOBS for another number) on the stores of an
// `up`; of three worker processes one is killed each second, and core five times.
func TestSixtyFourThousand(t *testing.T) {
	if os.Getenv(faultsEnv) != "figure" {
		t.Skip("only with " + faultsEnv + "=figure")
	}
	const goroutines, coreKills = 64, 5
	each := 1000
	if given := os.Getenv("FORGEQUEUE_FIGURE_JOBS"); given != "" {
		var err error
		if each, err = strconv.Atoi(given); err != nil {
			t.Fatal(err)
		}
	}
	up := stack.Up(t, stack.Folder(t), "--demo=false")
	c := stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: up.SecondDatabase(t), RedisURL: up.Redis.URL})
	l := newLoad(t, c, 2*time.Second)
	begun := time.Now()
	var producers sync.WaitGroup
	for range goroutines {
		one := l.client()
		producers.Go(func() {
			for range each {
				if err := l.submit(t.Context(), one); err != nil {
					t.Error("a job could not be submitted")
				}
			}
		})
	}
	submitted := make(chan struct{})
	go func() { producers.Wait(); close(submitted) }()

	plan := workerPlan{Mode: "loop", Max: 50}
	workers := []*stack.Process{l.process(plan), l.process(plan), l.process(plan)}
	// A worker that is killed never finishes late; one that is stopped for longer
	// than its leases does, each time.
	stopPauses := pauses(l, plan)
	workerKills, killedCore := 0, 0
	all := goroutines * each
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for ended := 0; ended < all; {
		<-second.C
		victim := workerKills % len(workers)
		workers[victim].Kill()
		workers[victim] = l.process(plan)
		workerKills++
		counted := stack.Query[int](t.Context(), t, c.DatabaseURL, `SELECT ((SELECT count(*) FROM finished_jobs) + (SELECT count(*) FROM dead_letters))::integer`)
		if len(counted) == 1 {
			ended = counted[0]
		}
		// Spread over the run: after each sixth of the jobs.
		if killedCore < coreKills && ended >= all*(killedCore+1)/(coreKills+1) {
			if c.Cores[0].Kill() {
				killedCore++
			}
			c.Cores[0].Start()
			c.Cores[0].AwaitReady()
			c.Gateways[0].AwaitReady()
		}
		if time.Since(begun) > 30*time.Minute {
			t.Fatalf("%d of %d jobs have ended after half an hour", ended, all)
		}
	}
	<-submitted
	paused := stopPauses()
	l.drain(90 * time.Second)
	took := time.Since(begun)
	for _, w := range workers {
		w.Stop(t)
	}
	h, db := l.check()
	states, onRecord := db.Count(), map[string]bool{}
	for _, r := range db.Rows {
		onRecord[r.ID] = true
	}
	lost := 0
	for id := range h.Accepted() {
		if !onRecord[id] {
			lost++
		}
	}
	accepted := h.Count(func(e invariants.Event) bool {
		return e.Op == invariants.OpOutcome && e.OK() && e.Kind == api.KindComplete
	})
	t.Logf("FIGURE accepted=%d terminal=%d completed=%d dead=%d lost=%d stale_refused=%d "+
		"completions_acknowledged=%d worker_kills=%d worker_pauses=%d core_kills=%d expired_leases=%d wall=%v",
		len(h.Accepted()), len(db.Rows)-db.Open(), states[api.StateCompleted], states[api.StateDeadLetter], lost, h.StaleRefused(),
		accepted, workerKills, paused, killedCore, expired(db), took.Round(time.Second))
	if killedCore != coreKills || lost > 0 || len(h.Accepted()) != all {
		t.Errorf("core was killed %d times, %d of %d jobs were accepted, %d are lost", killedCore, len(h.Accepted()), all, lost)
	}
}

// pauses stops a fourth worker for longer than its leases, again and again, until
// told to end; it gives how often.
func pauses(l *load, plan workerPlan) (stop func() int) {
	worker := l.process(plan)
	ending, ended := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			for _, step := range []struct {
				signal syscall.Signal
				wait   time.Duration
			}{{syscall.SIGCONT, 2 * time.Second}, {syscall.SIGSTOP, 4 * time.Second}} {
				worker.Signal(step.signal)
				select {
				case <-ending:
					worker.Signal(syscall.SIGCONT)
					ended <- n
					return
				case <-time.After(step.wait):
				}
			}
			n++
		}
	}()
	return func() int {
		close(ending)
		n := <-ended
		worker.Stop(l.t)
		return n
	}
}

func expired(db invariants.Database) int {
	n := 0
	for _, a := range db.Attempts {
		if a.Kind == "lease_expired" {
			n++
		}
	}
	return n
}
