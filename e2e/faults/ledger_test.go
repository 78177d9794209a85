package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// daysBack is how far a day is moved into the past: the test may run over midnight, and a day is over 5 minutes after that.
const daysBack = 3

// moveBack makes all that has happened to jobs happen some days ago, as if nothing had run since.
func moveBack(t *testing.T, url string) {
	t.Helper()
	for _, sql := range []string{
		`DO $$ BEGIN FOR n IN 2..6 LOOP EXECUTE format('CREATE TABLE past_%s PARTITION OF finished_jobs FOR VALUES FROM (%L) TO (%L)',
			n, ((now() AT TIME ZONE 'UTC')::date - n) || ' 00:00:00+00', ((now() AT TIME ZONE 'UTC')::date - n + 1) || ' 00:00:00+00'); END LOOP; END $$`,
		`UPDATE finished_jobs SET ` + earlier("created_at") + `, ` + earlier("started_at") + `, ` + earlier("finished_at"),
		`UPDATE dead_letters SET ` + earlier("created_at") + `, ` + earlier("died_at"),
		`UPDATE ledger_entries SET day = day - $1::int`,
		`UPDATE ledger_days SET day = day - $1::int`,
	} {
		var args []any
		if sql[0] != 'D' {
			sql, args = sql+` RETURNING 1`, []any{daysBack}
		}
		if changed := stack.Query[int](t.Context(), t, url, sql, args...); changed == nil {
			t.Fatalf("nothing was changed by %s", sql)
		}
	}
}

// earlier is immutable, as Citus wants it: timestamptz - interval is not.
func earlier(column string) string {
	return column + ` = (` + column + ` AT TIME ZONE 'UTC' - $1 * interval '1 day') AT TIME ZONE 'UTC'`
}

// Cores are killed under load, and again while they close the day: its numbers are those that the API has acknowledged,
// to the job.
func TestTheLedgerAgreesAfterKills(t *testing.T) {
	furtherFault(t, "TestCapsUnderKills")
	t.Parallel()
	cycles := lane(3, 100)
	cluster := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, cluster, 2*time.Second)
	c := l.client()
	const again, junk, kept, deleted = 20, 15, 5, 7
	l.bury(c, again, "again")
	l.bury(c, junk, "junk")
	l.bury(c, kept, "kept")
	stopWork := l.work(4, 10*time.Millisecond)
	stopSubmits := l.produce(8, cycles*600, 10*time.Millisecond)
	core, killed := cluster.Cores[0], 0
	made, err := c.RedriveMatching(t.Context(), api.DeadLetterFilter{Type: "again"}, 10) // goes on beside the kills
	if err != nil {
		t.Fatal(err)
	}
	kill := func(least, most time.Duration) {
		pace(t.Context(), moment(least, most))
		if core.Kill() {
			killed++
		}
		core.Start()
		core.AwaitReady()
		cluster.Gateways[0].AwaitReady()
	}
	for range cycles {
		kill(200*time.Millisecond, 900*time.Millisecond)
	}
	stopSubmits()
	if over := redriven(t, c, made.ID, 2*time.Minute, ended); over.Done != again {
		t.Fatalf("%+v", over)
	}
	if n := l.discard(c, api.DeadLetterFilter{Type: "junk"}); n != junk {
		t.Fatalf("%d are discarded", n)
	}
	l.drain(90 * time.Second)
	stopWork()
	h, db := l.check()
	states := db.Count()
	page, err := c.List(t.Context(), api.JobFilter{States: []string{api.StateCompleted}}, client.PageRequest{Size: deleted})
	if err != nil || len(page.Items) != deleted {
		t.Fatal(len(page.Items), err)
	}
	for _, one := range page.Items {
		if err := c.DeleteJob(t.Context(), one.ID); err != nil {
			t.Fatal(err)
		}
	}

	core.Kill()
	moveBack(t, cluster.DatabaseURL)
	core.Start()
	for range cycles { // at its start it closes the day
		kill(0, 300*time.Millisecond)
	}
	day := func(back int) string { return time.Now().UTC().AddDate(0, 0, -back).Format(time.DateOnly) }
	var usage api.Usage
	stack.Eventually(t, 4*time.Minute, "the day to be closed", func() bool {
		usage, err = c.Usage(t.Context(), client.UsageRequest{From: day(daysBack + 1), To: day(daysBack - 1)}, client.PageRequest{})
		return err == nil && usage.ClosedThrough >= usage.To
	})
	byType, err := c.Usage(t.Context(), client.UsageRequest{From: usage.From, To: usage.To, By: api.ByType}, client.PageRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("accepted %d, completed %d, dead %d, redriven %d, cancelled 0, discarded %d, open false",
		len(h.Accepted()), states[api.StateCompleted], again+junk+kept, again, junk)
	for by, items := range map[string][]api.UsageItem{"day": usage.Items, "type": byType.Items} {
		if got := sumOf(items); got != want {
			t.Errorf("by %s: the ledger says %s, the API has acknowledged %s", by, got, want)
		}
	}
	if killed < cycles || h.Count(disturbed) == 0 || len(byType.Items) != 4 {
		t.Errorf("%d kills, %d requests disturbed, types %+v", killed, h.Count(disturbed), byType.Items)
	}
	t.Logf("killed %d times; %s", killed, want)
}

func sumOf(items []api.UsageItem) string {
	var sum api.UsageItem
	for _, one := range items {
		sum.Accepted += one.Accepted
		sum.Completed += one.Completed
		sum.DeadLetter += one.DeadLetter
		sum.Redriven += one.Redriven
		sum.Cancelled += one.Cancelled
		sum.Discarded += one.Discarded
		sum.Open = sum.Open || one.Open
	}
	return fmt.Sprintf("accepted %d, completed %d, dead %d, redriven %d, cancelled %d, discarded %d, open %v",
		sum.Accepted, sum.Completed, sum.DeadLetter, sum.Redriven, sum.Cancelled, sum.Discarded, sum.Open)
}
