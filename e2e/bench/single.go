package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Names of the measures that need no peer: each is a ratio of ours to ours, or a
// figure as it is.
const (
	backlogRatio   = "claim p50, deepest ÷ 10k"
	snapshotRatio  = "old snapshot: last ÷ first slice, ÷ the same without"
	snapshotMany   = "the same with many tenants and caps"
	idleStatements = "idle statements a second, 10 workers waiting"
	coreMemory     = "core's memory at the deepest backlog, MiB"
	gatewayMemory  = "gateway's memory at the deepest backlog, MiB"
)

// single runs one round of what needs no peer, each part on a stack of its own.
// What does not fit the budget is left out.
func single(ctx context.Context, m *machine, o *options, round int, into *results) {
	slice := strconv.Itoa(max(o.snapshotJobs/10, 1))
	jobs := strconv.Itoa(o.snapshotJobs)
	for _, part := range []struct {
		name string
		run  func(*stack) error
	}{
		{idleStatements, func(s *stack) error { return s.idle(ctx, into, round) }},
		{snapshotRatio, func(s *stack) error {
			return s.snapshot(ctx, into, round, snapshotRatio, "--jobs", jobs, "--slice", slice)
		}},
		{snapshotMany, func(s *stack) error {
			return s.snapshot(ctx, into, round, snapshotMany, "--jobs", jobs, "--slice", slice, "--tenants", strconv.Itoa(o.tenants), "--limits", "--batch", "100")
		}},
		{backlogRatio, func(s *stack) error { return s.backlog(ctx, into, round, o.depth) }},
	} {
		if ctx.Err() != nil {
			into.cut = true
			into.note("round %d: %s: left out, the budget is used up", round+1, part.name)
			continue
		}
		err := func() error {
			s, err := startStack(ctx, m, part.name == idleStatements)
			if err != nil {
				return err
			}
			defer s.stop()
			return part.run(s)
		}()
		if err != nil {
			into.note("%s: %v", part.name, err)
		}
	}
}

func (s *stack) snapshot(ctx context.Context, into *results, round int, name string, args ...string) error {
	args = append([]string{"snapshot"}, args...)
	into.command(name, args)
	r, err := s.bench(ctx, args...)
	if err != nil {
		return err
	}
	// The bar's ratio says whether it decays; whether it is slower throughout stands beside it.
	into.note("%s: all of it with a snapshot ÷ without %.2f; jobs/s by slice, with %.0f, without %.0f; load %s",
		name, r.Figures["throughput_with_over_without"], r.Slices["with"], r.Slices["without"], load())
	into.add(round, name, r.Figures["held_over_free"])
	return nil
}

// shallow is what the deepest backlog is compared with.
const shallow = 10_000

func (s *stack) backlog(ctx context.Context, into *results, round, deepest int) error {
	// To core itself: a gateway's time would hide what depth costs.
	args := []string{"backlog", "--core", s.coreURL, "--depths", fmt.Sprintf("%d,%d", shallow, deepest)}
	into.command(backlogRatio, args)
	r, err := s.bench(ctx, args...)
	if err != nil {
		return err
	}
	core, gateway := memory(s.core), memory(s.gateway)
	fmt.Printf("round %d\t%-52s %12.2f\tp50 %v ms\tcore %.0f MiB, gateway %.0f MiB\tload %s\n",
		round+1, backlogRatio, r.Figures["p50_deepest_over_first"], r.Figures, core, gateway, load())
	into.add(round, backlogRatio, r.Figures["p50_deepest_over_first"])
	into.add(round, coreMemory, core)
	into.add(round, gatewayMemory, gateway)
	into.command(coreMemory, args)
	into.command(gatewayMemory, args)
	return nil
}

// memory is what a process holds, in MiB.
func memory(command *exec.Cmd) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", command.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024
		}
	}
	return 0
}

const (
	idleWorkers = 10
	idleSettle  = 3 * time.Second
	idleTime    = 10 * time.Second
)

// idle counts PostgreSQL's statements while nothing is queued and workers wait.
func (s *stack) idle(ctx context.Context, into *results, round int) error {
	waiter, err := s.tenant(ctx, "idle")
	if err != nil {
		return err
	}
	defer waiter.CloseIdleConnections()
	waiting, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	for i := range idleWorkers {
		group.Go(func() {
			longest := int64(api.MaxWait / time.Millisecond)
			ask := api.ClaimRequest{WorkerID: fmt.Sprintf("idle-%d", i), Queues: []string{"idle"}, WaitMS: &longest}
			for waiting.Err() == nil {
				if _, err := waiter.Claim(waiting, ask); err != nil && waiting.Err() == nil {
					time.Sleep(time.Second) // a note would be one for each; the count tells
				}
			}
		})
	}
	time.Sleep(idleSettle)
	statements, err := s.m.statements(ctx, s.database, idleTime)
	if err != nil {
		return err
	}
	rate := statements / idleTime.Seconds()
	fmt.Printf("round %d\t%-52s %12.2f\tload %s\n", round+1, idleStatements, rate, load())
	into.add(round, idleStatements, rate)
	into.command(idleStatements, []string{"(pg_stat_statements over", idleTime.String() + ")"})
	return nil
}

// tenant makes a tenant without limits, and gives a client that may do all that it can.
func (s *stack) tenant(ctx context.Context, name string) (*client.Client, error) {
	operator, err := client.New(client.Options{URL: s.gatewayURL, APIKey: s.operatorKey})
	if err != nil {
		return nil, err
	}
	defer operator.CloseIdleConnections()
	plan := "unlimited" // where the default plan has rates
	if _, err := operator.PutPlan(ctx, plan, api.PlanRequest{}); err != nil {
		return nil, err
	}
	tenant, err := operator.CreateTenant(ctx, api.TenantRequest{Name: name, Plan: &plan})
	if err != nil {
		return nil, err
	}
	key, err := operator.CreateKey(ctx, tenant.ID, api.KeyRequest{Scopes: api.Scopes()})
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{URL: s.gatewayURL, APIKey: key.Secret})
}

// count has PostgreSQL count what a database is asked, by sessions that begin later.
func (m *machine) count(ctx context.Context, database string) error {
	admin := m.postgres.URL("postgres")
	if err := m.ask(ctx, admin, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements", nil); err != nil {
		return err
	}
	return m.ask(ctx, admin, "ALTER DATABASE "+nameOf(database)+" SET pg_stat_statements.track = 'top'", nil)
}

// statements is how many a counted database is asked in a while.
func (m *machine) statements(ctx context.Context, database string, during time.Duration) (float64, error) {
	count := "SELECT COALESCE(sum(s.calls), 0)::float8 FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid WHERE d.datname = '" +
		nameOf(database) + "'"
	admin := m.postgres.URL("postgres")
	var before, after float64
	if err := m.ask(ctx, admin, count, &before); err != nil {
		return 0, err
	}
	if before == 0 {
		return 0, errors.New("pg_stat_statements has counted nothing, not even the start")
	}
	time.Sleep(during)
	err := m.ask(ctx, admin, count, &after)
	return after - before, err
}

// nameOf is the database in a URL; names are this program's own, and need no quotes.
func nameOf(database string) string {
	name, _, _ := strings.Cut(database[strings.LastIndex(strings.SplitN(database, "?", 2)[0], "/")+1:], "?")
	return name
}
