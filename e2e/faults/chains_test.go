package faults_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// mostCrashes: `up` gives up on a child that ends five times in a minute.
const mostCrashes = 15 * time.Second

// crash kills PostgreSQL, and waits until a submit is accepted again.
func (l *load) crash(up *stack.Stack) {
	l.t.Helper()
	old := postmaster(l.t, up)
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
	probe := l.client()
	stack.Eventually(l.t, time.Minute, "a submit is accepted by another postmaster", func() bool {
		return postmaster(l.t, up) != old && l.trySubmit(probe)
	})
}

// killAll kills workers, gateways, cores and PostgreSQL one after the other, and counts them.
func (l *load) killAll(up *stack.Stack, kills int, workers []*stack.Process, plan workerPlan) map[string]int {
	l.t.Helper()
	killed := map[string]int{}
	var crashed time.Time
	for i := range kills {
		pace(l.t.Context(), moment(200*time.Millisecond, 700*time.Millisecond))
		if i%4 == 3 && time.Since(crashed) > mostCrashes {
			crashed = time.Now()
			l.crash(up)
			killed["postgres"]++
		} else {
			l.killOne(i, workers, plan, killed)
		}
	}
	return killed
}

// What was submitted by jobs of the load: by whom, by which of its attempts, how many, and the epoch in which it completed; 0 if it did
// not.
const chainedSQL = `
SELECT (c.payload ->> 'parent') || ' ' || (c.payload ->> 'epoch') || ': ' || count(*) || ', completed in epoch ' || COALESCE(p.epoch, 0)
FROM (SELECT payload FROM finished_jobs WHERE type = 'child' UNION ALL SELECT payload FROM jobs WHERE type = 'child') AS c
LEFT JOIN finished_jobs AS p ON p.id = (c.payload ->> 'parent')::uuid AND p.state = 'completed'
GROUP BY c.payload ->> 'parent', c.payload ->> 'epoch', p.epoch
HAVING count(*) <> $1 OR p.epoch IS DISTINCT FROM (c.payload ->> 'epoch')::bigint`

// Workers, gateways, cores and PostgreSQL are killed while each job submits three with its result. Each completed job has submitted
// three, by the attempt that completed, and no other attempt any.
func TestChainsUnderKills(t *testing.T) {
	t.Parallel()
	const children = 3
	up := stack.Up(t, stack.Folder(t), "--demo=false")
	c := stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: up.SecondDatabase(t), RedisURL: up.Redis.URL, Cores: 2, Gateways: 2})
	l := newLoad(t, c, 2*time.Second)
	plan := workerPlan{Mode: "loop", Max: 8, HoldMS: lane(60, 20), Children: children}
	workers := []*stack.Process{l.process(plan), l.process(plan)}
	kills := lane(4, 300)
	stopSubmits := l.produce(lane(8, 16), kills*lane(200, 170), 10*time.Millisecond)
	killed := l.killAll(up, kills, workers, plan)
	stopSubmits()
	l.drain(3 * time.Minute)
	for _, w := range workers {
		w.Stop(t)
	}
	for _, wrong := range stack.Query[string](t.Context(), t, c.DatabaseURL, chainedSQL, children) {
		t.Error(wrong)
	}
	count := func(jobType string) int {
		return stack.Query[int](t.Context(), t, c.DatabaseURL, `SELECT count(*)::integer FROM finished_jobs WHERE type = $1 AND state = 'completed'`, jobType)[0]
	}
	parents, chained := count("load"), count("child")
	if parents < kills*5 || chained != children*parents {
		t.Errorf("%d jobs completed, %d of those that they submitted", parents, chained)
	}
	if lines := c.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
	t.Logf("kills %v, %d jobs completed, %d followed", killed, parents, chained)
}
