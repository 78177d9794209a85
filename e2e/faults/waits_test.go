package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// wakesSQL notes each begin of a wait, and each end of one with how many signals the job had then.
const wakesSQL = `
CREATE TABLE wakes (id uuid, kind text, signals bigint);
CREATE FUNCTION note_wake() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO wakes SELECT NEW.id, CASE NEW.state WHEN 'waiting' THEN 'asleep' ELSE NEW.state END, count(*) FROM job_signals WHERE job_id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER note_wake AFTER UPDATE ON jobs FOR EACH ROW WHEN ((OLD.state = 'waiting') <> (NEW.state = 'waiting')) EXECUTE FUNCTION note_wake()`

// unsignalledSQL gives jobs of the load that do not have a signal yet: they run or wait, and some are still queued.
const unsignalledSQL = `
SELECT id::text FROM jobs WHERE type = 'load' AND NOT EXISTS (SELECT FROM job_signals WHERE job_id = jobs.id AND name = $1)
  AND (state <> 'queued' OR hashtext(id::text) % 4 = 0) ORDER BY random() LIMIT 50`

// Workers, gateways, cores and PostgreSQL are killed while jobs wait for two signals, which come before, while and after they decide to.
// Each wait ends once, when both are there, and no job sleeps.
func TestWaitsUnderKills(t *testing.T) {
	t.Parallel()
	up := stack.Up(t, stack.Folder(t), "--demo=false")
	c := stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: up.SecondDatabase(t), RedisURL: up.Redis.URL, Cores: 2, Gateways: 2})
	stack.Exec(t.Context(), t, c.DatabaseURL, wakesSQL)
	l := newLoad(t, c, 2*time.Second)
	plan := workerPlan{Mode: "loop", Max: 8, HoldMS: lane(60, 20), Waits: true}
	workers := []*stack.Process{l.process(plan), l.process(plan)}
	kills := lane(4, 200)
	stopSubmits := l.produce(lane(8, 16), kills*lane(150, 60), 10*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	var signals sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		signals.Go(func() { l.signalAll(ctx, l.client(), name) })
	}
	killed := l.killAll(up, kills, workers, plan)
	stopSubmits()
	l.drain(3 * time.Minute)
	stop()
	signals.Wait()
	for _, w := range workers {
		w.Stop(t)
	}
	count := func(sql string) int {
		return stack.Query[int](t.Context(), t, c.DatabaseURL, `SELECT count(*)::integer FROM `+sql)[0]
	}
	asleep, woken := count(`wakes WHERE kind = 'asleep'`), count(`wakes WHERE kind = 'queued' AND signals = 2`)
	done := count(`finished_jobs WHERE type = 'load' AND state = 'completed'`)
	if left, early := count(`jobs WHERE state = 'waiting'`), count(`wakes WHERE kind <> 'asleep' AND signals <> 2`); left+early > 0 || asleep != woken || done < kills*5 || asleep < done/4 {
		t.Errorf("%d jobs completed, %d waits, %d ended with both signals, %d without, %d jobs are asleep", done, asleep, woken, early, left)
	}
	if lines := c.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
	t.Logf("kills %v, %d jobs completed, %d waits, %d wakes", killed, done, asleep, woken)
}

// signalAll sends a signal to each job of the load, until ctx ends.
func (l *load) signalAll(ctx context.Context, c *client.Client, name string) {
	for ctx.Err() == nil {
		for _, id := range stack.Query[string](ctx, l.t, l.cluster.DatabaseURL, unsignalledSQL, name) { // none while PostgreSQL is down
			_, _ = c.Signal(ctx, id, api.SignalRequest{Name: name}) // it is tried again while it is not there
		}
		pace(ctx, 20*time.Millisecond)
	}
}
