package faults_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// An asynchronous standby that has not received everything is promoted. With the old primary, started once more where no core may use it,
// `core verify --after-failover` names exactly the jobs, ends of jobs, claims and changes that were acknowledged and are lost.
func TestWhatAnAsynchronousStandbyLost(t *testing.T) {
	furtherFault(t, "TestPrimaryFailsOver")
	t.Parallel()
	p := newPair(t, false)
	c := stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: p.servers[0].URL("beside"), Through: p.url})
	tenant := c.NewTenant(t, "acme")
	user := c.Client(t, tenant.Key)
	submit := func(n int) (ids []string) {
		t.Helper()
		for range n {
			made, err := user.Submit(t.Context(), api.SubmitRequest{Type: "load", Queue: "q"})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, made.ID)
		}
		return ids
	}
	claim := func(n int) []api.ClaimedJob {
		t.Helper()
		claimed, err := user.Claim(t.Context(), api.ClaimRequest{WorkerID: "w", Queues: []string{"q"}, Max: &n})
		if err != nil || len(claimed.Jobs) != n {
			t.Fatalf("%+v: %v", claimed, err)
		}
		return claimed.Jobs
	}
	submit(20)
	claim(1)
	p.cutOff()
	want := map[string]string{}
	for _, id := range submit(15) {
		want[id] = "lost, queued"
	}
	taken := claim(5)
	for _, one := range taken {
		want[one.ID] = "claim undone"
	}
	for _, one := range taken[:3] {
		if _, err := user.Complete(t.Context(), one.ID, api.CompleteRequest{LeaseToken: one.LeaseToken}); err != nil {
			t.Fatal(err)
		}
		want[one.ID] = "not ended, was completed"
	}
	c.SetQueue(t, tenant, "q", map[string]any{"max_attempts": 7})
	p.crash(0)
	p.promote()
	c.DatabaseURL = p.servers[1].URL("beside")
	stack.Eventually(t, time.Minute, "a submit is accepted after the promotion", func() bool {
		_, err := user.Submit(t.Context(), api.SubmitRequest{Type: "load", Queue: "later"})
		return err == nil
	})
	code, words := stack.Core(t, c.DatabaseURL, "verify", "--after-failover")
	if code == 0 || !strings.Contains(words, "set FORGEQUEUE_OLD_DATABASE_URL") {
		t.Errorf("without the old primary: exit code %d\n%s", code, words)
	}

	p.start(0, nil)
	code, lines, words := stack.CoreWith(t, map[string]string{"DATABASE_URL": c.DatabaseURL, "FORGEQUEUE_OLD_DATABASE_URL": p.servers[0].URL("beside")}, "verify", "--after-failover=24h")
	got := map[string]string{}
	changes := 0
	for _, line := range lines {
		if says, rest, found := strings.Cut(line, ": job "); found {
			got[rest[:36]] = says
		}
		if strings.Contains(line, "change lost: tenant "+tenant.ID+": "+api.AuditQueuePut+" q") {
			changes++
		}
	}
	if code == 0 || !maps.Equal(got, want) || changes != 1 {
		t.Errorf("exit code %d, jobs %v\nwant %v\n%q\n%s", code, got, want, lines, words)
	}
}

// cutOff ends the standby's replication once it has everything.
func (p *pair) cutOff() {
	p.t.Helper()
	source := p.servers[p.primary].URL("postgres")
	ask := func(sql string) bool {
		answers := stack.Query[bool](p.t.Context(), p.t, source, sql)
		return len(answers) == 1 && answers[0]
	}
	stack.Eventually(p.t, time.Minute, "the standby has everything", func() bool {
		return ask("SELECT bool_and(replay_lsn >= pg_current_wal_flush_lsn()) FROM pg_stat_replication")
	})
	access := filepath.Join(p.dirs[p.primary], "pg_hba.conf")
	text, err := os.ReadFile(access)
	if err == nil {
		err = os.WriteFile(access, append([]byte("local replication all reject\n"), text...), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.do(p.primary, "SELECT pg_reload_conf()")
	p.do(p.primary, "SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
	stack.Eventually(p.t, time.Minute, "the standby is cut off", func() bool { return ask("SELECT NOT EXISTS (SELECT FROM pg_stat_replication)") })
}
