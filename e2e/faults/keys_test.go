package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What PostgreSQL saw: each start, with the place of the job in the order of acceptance and what it reserved, and each settlement, with
// a time before its commit. Of the ordered tenant's keys one job runs at a time: a second one would be an error.
func seenSQL(ordered string) []string {
	return []string{
		`CREATE TABLE starts (tenant uuid, key text, accepted timestamptz, at timestamptz, reserved bigint)`,
		`CREATE TABLE settled (at timestamptz, started_at timestamptz, reserved bigint, used bigint)`,
		`CREATE FUNCTION note_start() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO starts VALUES (NEW.tenant_id, NEW.key, NEW.created_at, NEW.started_at, (NEW.costs ->> 'tokens')::bigint); RETURN NULL; END $$`,
		`CREATE TRIGGER starts AFTER UPDATE ON jobs FOR EACH ROW WHEN (NEW.state = 'running' AND OLD.state = 'queued') EXECUTE FUNCTION note_start()`,
		`CREATE FUNCTION note_settled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO settled VALUES (clock_timestamp(), NEW.started_at, NEW.reserved, NEW.used); RETURN NULL; END $$`,
		`CREATE TRIGGER settled AFTER INSERT ON budget_settlements FOR EACH ROW EXECUTE FUNCTION note_settled()`,
		`CREATE UNIQUE INDEX one_at_a_time ON jobs (key) WHERE state = 'running' AND tenant_id = '` + ordered + `'`,
	}
}

const (
	keyCap      = 2
	tokensHeld  = 600
	tokensPerMS = 1000
	// inversionsSQL counts the starts that came after one of their key that was accepted later.
	inversionsSQL = `
SELECT count(*)::integer FROM (
  SELECT accepted, max(accepted) OVER (PARTITION BY key ORDER BY at, accepted ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM starts WHERE tenant = $1::uuid) AS s
WHERE before > accepted`
	overKeyCapSQL = `
SELECT key || ': ' || count(*) FROM jobs WHERE tenant_id = $1::uuid AND state = 'running' GROUP BY key HAVING count(*) > $2`
	// mostReservedSQL is what was reserved and used at most within the budget's time before a start.
	mostReservedSQL = `
SELECT COALESCE(max(
  (SELECT sum(o.reserved) FROM starts AS o WHERE o.reserved IS NOT NULL AND o.at > s.at - $1::integer * interval '1 ms' AND o.at <= s.at)
  - COALESCE((SELECT sum(GREATEST(e.reserved - e.used, 0)) FROM settled AS e WHERE e.started_at > s.at - $1::integer * interval '1 ms' AND e.started_at <= s.at AND e.at <= s.at), 0)), 0)::integer
FROM starts AS s WHERE reserved IS NOT NULL`
)

// Cores, gateways, workers, Redis and PostgreSQL are killed while one tenant's keys have a cap and its jobs a budget, and another one's
// keys are in order: the cap and the budget are never exceeded, no two jobs of an ordered key overlap or overtake, nothing waits for
// nothing, and the ledger is the sum of what was reported.
func TestKeysAndBudgetsUnderKills(t *testing.T) {
	t.Parallel()
	up := stack.Up(t, stack.Folder(t), "--demo=false")
	redis := newFaultyRedis(t)
	c := stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: up.SecondDatabase(t), RedisURL: redis.URL(), Cores: 2, Gateways: 2})
	l := newLoad(t, c, 2*time.Second)
	ordered := l.beside()
	queue := func(l *load, keys map[string]any) {
		c.SetQueue(t, l.tenant, loadQueue, map[string]any{
			"visibility_timeout_ms": 2000, "max_attempts": 20, "retry": map[string]any{"base_ms": 20, "cap_ms": 200, "jitter": 0.2}, "keys": keys,
		})
	}
	queue(l, map[string]any{"max_running": keyCap})
	queue(ordered, map[string]any{"order": "fifo"})
	l.keys, ordered.keys, l.costs = 5, 5, api.Amounts{"tokens": 20}
	if status, body := stack.Call(t, http.MethodPut, c.Gateways[0].URL+"/v1/budgets/tokens", l.tenant.Key, fmt.Appendf(nil, `{"unit":"tokens","amount":%d,"per_ms":%d}`, tokensHeld, tokensPerMS)); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for _, sql := range seenSQL(ordered.tenant.ID) {
		stack.Exec(t.Context(), t, c.DatabaseURL, sql)
	}
	watched, stopWatch := context.WithCancel(t.Context())
	defer stopWatch()
	over := make(chan []string, 1)
	go func() {
		var found []string
		for watched.Err() == nil {
			found = append(found, stack.Query[string](watched, t, c.DatabaseURL, overKeyCapSQL, l.tenant.ID, keyCap)...)
			pace(watched, 15*time.Millisecond)
		}
		over <- found
	}()
	plan := workerPlan{Mode: "loop", Max: 6, HoldMS: 20, Used: api.Amounts{"tokens": 10}}
	orderedPlan := workerPlan{Mode: "loop", Max: 6, HoldMS: 20}
	workers, orderedWorkers := []*stack.Process{l.process(plan), l.process(plan)}, []*stack.Process{ordered.process(orderedPlan), ordered.process(orderedPlan)}
	kills := lane(5, 60)
	stopSubmits, stopOrdered := l.produce(4, kills*lane(60, 100), 20*time.Millisecond), ordered.produce(4, kills*lane(60, 100), 20*time.Millisecond)
	killed := map[string]int{}
	var crashed time.Time
	for i := range kills {
		pace(t.Context(), moment(200*time.Millisecond, 700*time.Millisecond))
		switch {
		case i%5 == 3 && time.Since(crashed) > mostCrashes:
			crashed = time.Now()
			l.crash(up)
			killed["postgres"]++
		case i%5 == 4:
			redis.kill()
			pace(t.Context(), moment(100*time.Millisecond, time.Second))
			redis.start()
			killed["redis"]++
		case i%2 == 0:
			l.killOne(i, workers, plan, killed)
		default:
			ordered.killOne(i, orderedWorkers, orderedPlan, killed)
		}
	}
	stopSubmits()
	stopOrdered()
	l.drain(3 * time.Minute)
	stopWatch()
	for _, w := range append(workers, orderedWorkers...) {
		w.Stop(t)
	}
	for _, one := range <-over {
		t.Errorf("more run than the cap of the key lets: %s", one)
	}
	ask := func(sql string, args ...any) int {
		t.Helper()
		found := stack.Query[int](t.Context(), t, c.DatabaseURL, sql, args...)
		if len(found) != 1 {
			t.Fatalf("no answer to %s", sql)
		}
		return found[0]
	}
	if n := ask(inversionsSQL, ordered.tenant.ID); n > 0 {
		t.Errorf("%d jobs of a key in order were overtaken", n)
	}
	most := ask(mostReservedSQL, tokensPerMS)
	if most > tokensHeld {
		t.Errorf("%d tokens were reserved and used of %d", most, tokensHeld)
	}
	const starts = `SELECT count(*)::integer FROM starts WHERE tenant = $1::uuid`
	capped, inOrder := ask(starts, l.tenant.ID), ask(starts, ordered.tenant.ID)
	if capped < 50 || inOrder < 50 || most < tokensHeld/2 {
		t.Errorf("nothing was shown: %d and %d starts, %d tokens at most", capped, inOrder, most)
	}
	if lines := c.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
	usage, err := c.Client(t, l.tenant.Key).BudgetUsage(t.Context(), "tokens", "", "")
	if err != nil {
		t.Fatal(err)
	}
	var used int64
	for _, day := range usage.Days {
		used += day.Used
	}
	if settled := ask(`SELECT COALESCE(sum(used), 0)::integer FROM settled`); used != int64(settled) {
		t.Errorf("%d tokens are in the ledger, %d were settled", used, settled)
	}
	t.Logf("kills %v, %d starts with a cap, %d in order, %d of %d tokens at most", killed, capped, inOrder, most, tokensHeld)
}
