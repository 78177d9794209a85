package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// cellNames are those of moved; the first is home.
var cellNames = []string{"first", "second", "third"} //nolint:gochecknoglobals // a constant

// phasesOfMove are what `core tenant move` writes down, in order.
var phasesOfMove = []string{"copying", "draining", "left", "switched", "removing"} //nolint:gochecknoglobals // a constant

// moved is a tenant under load in an installation with three cells.
type moved struct {
	*load
	urls []string
	// kill is how often a mover was killed, phases in which phase.
	kill   int
	phases map[string]int
}

// A tenant is moved under load, and the command is killed in every phase and run again: all that was accepted is there once, and what
// is leased for longer than a move waits is given back, with its attempt. Another tenant of the old cell goes on.
func TestATenantIsMoved(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	stack.NotOnCitus(t, "moves a tenant between cells, which is refused between schemas there")
	m := newMoved(t)
	beside := m.beside()
	long := inLongLane() || os.Getenv(faultsEnv) == "figure"
	live := 1000
	if long {
		live = 100_000
	}
	waiting := m.preload(live)
	complete := m.hold(5)
	var stops []func()
	for _, one := range []*load{m.load, beside} {
		stops = append(stops, one.work(3, 10*time.Millisecond))
	}
	stopSubmits, stopBeside := m.produce(4, 1_000_000, 10*time.Millisecond), beside.produce(1, 1_000_000, 10*time.Millisecond)

	if long {
		pace(t.Context(), 30*time.Second)
	}
	at, first := 1, time.Now()
	m.killInEachPhase(at)
	if long {
		at = m.killAtRandom(at, 10)
		at = (at + 1) % len(cellNames)
		begun := time.Now()
		m.run(at)
		m.figure(begun)
		besides(t, beside, first, begun)
	}
	complete()
	stopSubmits()
	stopBeside()
	stack.Eventually(t, 2*time.Minute, "every job has ended but those that wait", func() bool {
		open := stack.Query[int](t.Context(), t, m.urls[at], `SELECT count(*)::integer FROM jobs
			WHERE queue = $1 AND tenant_id = $2 AND COALESCE(run_at, now()) < now() + interval '1 hour'`, loadQueue, m.tenant.ID)
		others := stack.Query[int](t.Context(), t, m.urls[0], `SELECT count(*)::integer FROM jobs WHERE tenant_id = $1`, beside.tenant.ID)
		return len(open) == 1 && open[0] == 0 && len(others) == 1 && others[0] == 0
	})
	for _, stop := range stops {
		stop()
	}
	m.files = append(m.files, beside.files...)
	db := m.whole(at)
	if n := db.Count()[api.StateScheduled]; n != waiting {
		t.Errorf("%d jobs wait, %d were submitted", n, waiting)
	}
	m.judge(m.history(), db)
	if lines := m.cluster.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
	t.Logf("killed %d times, by phase: %v", m.kill, m.phases)
}

func newMoved(t *testing.T) *moved {
	t.Helper()
	urls, listed := []string{stack.NewDatabase(t)}, []map[string]any{{"name": cellNames[0]}}
	for _, name := range cellNames[1:] {
		url := stack.NewDatabase(t)
		urls, listed = append(urls, url), append(listed, map[string]any{"name": name, "dsn": url, "accepts_new": false})
	}
	text, err := json.Marshal(listed)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cells.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := stack.NewCluster(t, stack.ClusterOptions{Cells: cellNames, Cores: 2, Gateways: 2, DatabaseURL: urls[0], Settings: map[string]string{"FORGEQUEUE_CELLS": file}})
	return &moved{load: newLoad(t, c, 2*time.Second), urls: urls, phases: map[string]int{}}
}

// preload stores jobs whose time is after the test.
func (m *moved) preload(n int) int {
	m.t.Helper()
	c := m.client()
	delay := (24 * time.Hour).Milliseconds()
	for left := n; left > 0; {
		var batch api.BatchRequest
		for ; left > 0 && len(batch.Jobs) < 500; left-- {
			request := m.request()
			request.DelayMS = &delay
			batch.Jobs = append(batch.Jobs, request)
		}
		if _, err := c.SubmitBatch(m.t.Context(), batch); err != nil {
			m.t.Fatal(err)
		}
	}
	return n
}

func (m *moved) start(to int) *stack.Process {
	return m.cluster.Command(m.t, "tenant", "move", m.tenant.ID, cellNames[to])
}

// run moves the tenant to the end of the move.
func (m *moved) run(to int) {
	m.t.Helper()
	m.ended(m.start(to))
}

func (m *moved) ended(command *stack.Process) {
	m.t.Helper()
	if code := command.Wait(m.t, 5*time.Minute); code != 0 {
		m.t.Fatalf("the move ended with %d\n%s", code, command.Output())
	}
}

// phase gives that of the move that is under way, "" for none.
func (m *moved) phase() string {
	m.t.Helper()
	found := stack.Query[string](m.t.Context(), m.t, m.urls[0], `SELECT phase FROM tenant_moves`)
	return strings.Join(found, "")
}

// killInEachPhase moves the tenant with a kill in each phase; a trigger lets no mover leave it meanwhile.
func (m *moved) killInEachPhase(to int) {
	m.t.Helper()
	ctx, home := m.t.Context(), m.urls[0]
	for _, phase := range phasesOfMove {
		stack.Exec(ctx, m.t, home, fmt.Sprintf(`
			CREATE OR REPLACE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN NULL; END $$;
			CREATE OR REPLACE TRIGGER stay BEFORE UPDATE OR DELETE ON tenant_moves FOR EACH ROW WHEN (OLD.phase = '%s') EXECUTE FUNCTION stay()`, phase))
		command := m.start(to)
		stack.Eventually(m.t, 2*time.Minute, "the move is "+phase, func() bool {
			if !command.Running() {
				m.t.Fatalf("the move ended before it was %s\n%s", phase, command.Output())
			}
			return m.phase() == phase
		})
		pace(ctx, moment(0, 500*time.Millisecond))
		if !command.Running() {
			m.t.Errorf("the move ended while it was %s\n%s", phase, command.Output())
		}
		command.Kill()
		m.kill++
		m.phases[phase]++
		stack.Query[bool](ctx, m.t, home, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`)
		stack.Exec(ctx, m.t, home, `DROP TRIGGER stay ON tenant_moves`)
		if now := m.phase(); now != phase {
			m.t.Errorf("killed while it was %s, the move is %q", phase, now)
		}
	}
	m.run(to)
}

// killAtRandom moves the tenant from cell to cell until the command was killed so many times, and that move has ended.
func (m *moved) killAtRandom(at, kills int) int {
	m.t.Helper()
	for done := 0; done < kills; {
		at = (at + 1) % len(cellNames)
		command := m.start(at)
		for ; done < kills; done++ {
			pace(m.t.Context(), moment(100*time.Millisecond, 12*time.Second))
			if !command.Running() {
				break
			}
			command.Kill()
			m.kill++
			m.phases[m.phase()]++
			command = m.start(at)
		}
		m.ended(command)
	}
	return at
}

// figure logs the longest times without an answer that is no refusal, during a move that was not killed.
func (m *moved) figure(begun time.Time) {
	m.t.Helper()
	last, longest := map[string]time.Time{}, map[string]time.Duration{}
	for _, e := range m.history().Events {
		if e.Tenant != m.tenant.ID || !e.OK() || e.Done.Before(begun) || e.Op == invariants.OpClaim && e.Job == "" {
			continue
		}
		op := fmt.Sprint(e.Op)
		if before, is := last[op]; is {
			longest[op] = max(longest[op], e.Done.Sub(before).Round(time.Millisecond))
		}
		last[op] = e.Done
	}
	m.t.Logf("FIGURE a move that was not killed took %v; longest time between two answers: %v", time.Since(begun).Round(time.Second), longest)
}

// besides logs how long requests of the other tenant took, before all moves and in one that was not killed.
func besides(t *testing.T, other *load, first, begun time.Time) {
	t.Helper()
	before, during := map[string][]time.Duration{}, map[string][]time.Duration{}
	for _, e := range other.history().Events {
		took, op := e.Done.Sub(e.Sent), fmt.Sprint(e.Op)
		switch {
		case e.Tenant != other.tenant.ID || !e.OK() || e.Op == invariants.OpClaim: // which waits for jobs
		case e.Sent.After(begun):
			during[op] = append(during[op], took)
		case e.Done.Before(first):
			before[op] = append(before[op], took)
		}
	}
	for op := range during {
		t.Logf("FIGURE the other tenant's %s: p99 %v of %d in the move, %v of %d before", op, percentile(during[op], 0.99), len(during[op]), percentile(before[op], 0.99), len(before[op]))
	}
}

// hold claims jobs and extends their leases for as long as they last: a move gives them back. What it returns claims the jobs
// again, in the cell that they are in by then, and completes them with their first attempt.
func (m *moved) hold(n int) (complete func()) {
	m.t.Helper()
	const queue, worker = "held", "holder"
	m.setVisibilityOf(queue, 10*time.Minute)
	c := m.client()
	leases := make([]api.Lease, n)
	for i := range leases {
		request := m.request()
		request.Queue = queue
		stack.Submit(m.t, c, request)
		job := stack.ClaimOne(m.t, c, worker, queue)
		leases[i] = api.Lease{JobID: job.ID, LeaseToken: job.LeaseToken}
	}
	ctx, stop := context.WithCancel(m.t.Context())
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		for held := n; held > 0 && ctx.Err() == nil; pace(ctx, time.Second) {
			beat, err := c.Heartbeat(ctx, worker, leases)
			if err != nil {
				continue
			}
			held = 0
			for _, lease := range beat.Leases {
				if lease.Status == api.LeaseOK {
					held++
				}
			}
		}
	}()
	return func() {
		m.t.Helper()
		defer stop()
		select {
		case <-lost:
		case <-time.After(stack.Patience(time.Minute)):
			m.t.Error("leases of before the moves are still held")
		}
		for range n {
			job := stack.ClaimOne(m.t, c, worker, queue)
			if job.Attempt != 1 {
				m.t.Errorf("the job that was given back is at attempt %d", job.Attempt)
			}
			if outcome, err := c.Complete(m.t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil || outcome.State != api.StateCompleted {
				m.t.Errorf("the job that was given back: %+v, %v", outcome, err)
			}
		}
	}
}

// whole is what is on record in all cells.
func (m *moved) whole(at int) invariants.Database {
	m.t.Helper()
	var all invariants.Database
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, url := range m.urls {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(m.t.Context(), stack.Patience(time.Minute))
			defer cancel()
			db, err := invariants.Read(ctx, url)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				m.t.Error(err)
			}
			if i == at {
				all.Now, all.Discarded = db.Now, db.Discarded
			}
			all.Rows, all.Attempts = append(all.Rows, db.Rows...), append(all.Attempts, db.Attempts...)
			all.IdleInTransaction += db.IdleInTransaction
		})
	}
	group.Wait()
	return all
}
