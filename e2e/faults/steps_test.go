package faults_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// stoppedCore is a cluster of two cores, of which the second is stopped while it is within a step.
type stoppedCore struct {
	*testing.T
	*stack.Cluster
	// direct is a connection to the database. The client first goes to the first core, second to the one
	// that is stopped.
	direct        *pgx.Conn
	first, second *client.Client
}

func newStoppedCore(t *testing.T) *stoppedCore {
	t.Helper()
	s := &stoppedCore{T: t, Cluster: stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2})}
	tenant := s.NewTenant(t, "stopped")
	s.first = s.Client(t, tenant.Key)
	var err error
	if s.second, err = client.New(client.Options{URL: s.Gateways[1].URL, APIKey: tenant.Key}); err != nil {
		t.Fatal(err)
	}
	if s.direct, err = pgx.Connect(t.Context(), s.DatabaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.direct.Close(context.WithoutCancel(t.Context())) })
	return s
}

func (s *stoppedCore) exec(sql string) {
	s.Helper()
	if _, err := s.direct.PgConn().Exec(s.Context(), sql).ReadAll(); err != nil {
		s.Fatal(err)
	}
}

// stop stops the second core within a step that provoke leads to: where a statement such as the pattern waits
// for lock. The first core, which was killed before, is then started: it finds what the other holds. The
// session of the step, whose transaction stays open, is the result.
func (s *stoppedCore) stop(lock, pattern string, provoke func()) (session int) {
	s.Helper()
	s.Cores[0].Kill()
	s.exec(`BEGIN; ` + lock)
	provoke()
	for {
		stack.Eventually(s, time.Minute, "the core is within a step", func() bool {
			waiting := stack.Query[int](s.Context(), s, s.DatabaseURL, `SELECT pid FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'forgequeue-core' AND wait_event_type = 'Lock' AND query ~ $1`, pattern)
			if len(waiting) == 1 {
				session = waiting[0]
			}
			return len(waiting) == 1
		})
		s.signal(syscall.SIGSTOP)
		stack.Eventually(s, time.Minute, "all threads of the core stand still", s.standsStill)
		s.exec(`ROLLBACK`)
		state := "active"
		stack.Eventually(s, time.Minute, "PostgreSQL waits for the core", func() bool {
			state = s.stateOf(session)
			return state != "active"
		})
		if state == "idle in transaction" {
			break
		}
		// The wait was given up, after half a second for follow-ups, or was that of the core that was killed.
		s.exec(`BEGIN; ` + lock)
		s.signal(syscall.SIGCONT)
	}
	s.Cores[0].Start()
	s.Cores[0].AwaitReady()
	s.Gateways[0].AwaitReady()
	return session
}

func (s *stoppedCore) signal(signal syscall.Signal) {
	s.Helper()
	if err := syscall.Kill(s.Cores[1].Pid(), signal); err != nil {
		s.Fatal(err)
	}
}

// standsStill says whether SIGSTOP has reached every thread: on a busy machine, those that wait for a processor
// go on for a while. Without /proc it cannot be seen, and true is the answer.
func (s *stoppedCore) standsStill() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.Cores[1].Pid()))
	for _, thread := range threads {
		text, err := os.ReadFile(thread) // PID (NAME) STATE …
		if _, rest, ok := strings.Cut(string(text), ") "); err == nil && ok && rest[0] != 'T' {
			return false
		}
	}
	return true
}

// stateOf is "" once the session is over.
func (s *stoppedCore) stateOf(session int) string {
	states := stack.Query[string](s.Context(), s, s.DatabaseURL, `SELECT state FROM pg_stat_activity WHERE pid = $1 AND datname = current_database()`, session)
	if len(states) == 0 {
		return ""
	}
	return states[0]
}

// awaitTimeout waits until PostgreSQL has ended the session of a step, and rolled it back: after 30 s.
func (s *stoppedCore) awaitTimeout(session int) {
	s.Helper()
	stack.Eventually(s, time.Minute, "PostgreSQL has ended the session", func() bool { return s.stateOf(session) == "" })
}

// A core is stopped within a step of a schedule. Other schedules go on meanwhile, by another core; its own go
// on when it does, or when PostgreSQL has ended its session. No tick is made twice, and none is missing.
func TestCoreStoppedInAStepOfASchedule(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	stack.NotOnCitus(t, "sees what a session waits for, which is on the worker")
	s := newStoppedCore(t)
	put := func(name string) {
		t.Helper()
		if _, err := s.first.PutSchedule(t.Context(), name, api.ScheduleRequest{
			Cron: new("* * * * * *"), CatchUp: api.CatchUpAll, CatchUpMax: new(1000), Job: api.ScheduleJob{Type: name},
		}); err != nil {
			t.Fatal(err)
		}
	}
	moreOf := func(name string) {
		t.Helper()
		before := len(s.ScheduleRuns(t, name))
		stack.Eventually(t, time.Minute, name+" goes on", func() bool { return len(s.ScheduleRuns(t, name)) >= before+3 })
	}
	names := []string{"held"}
	put("held")
	for _, long := range []bool{false, true} {
		moreOf("held")
		session := s.stop(`LOCK TABLE schedule_runs IN SHARE MODE`, `INSERT INTO schedule_runs`, func() {})
		other := fmt.Sprint("other-", long)
		names = append(names, other)
		put(other)
		moreOf(other)
		if long {
			s.awaitTimeout(session)
			moreOf("held")
		}
		s.signal(syscall.SIGCONT)
		moreOf("held")
	}
	s.Cores[0].Kill()
	moreOf("held") // by the core that was stopped
	s.Cores[0].Start()
	s.Cores[0].AwaitReady()
	s.Gateways[0].AwaitReady()
	for _, name := range names {
		if _, err := s.first.PauseSchedule(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		s.CheckSeconds(t, name)
	}
	if lines := s.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
}

// A core is stopped within a step of follow-ups. Those of other tenants are worked off meanwhile, by another
// core; its own when it goes on, or when PostgreSQL has ended its session. Each job runs once, after all
// before it.
func TestCoreStoppedInAFollowUp(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	stack.NotOnCitus(t, "sees what a session waits for, which is on the worker")
	s := newStoppedCore(t)
	other := s.Client(t, s.NewTenant(t, "other").Key)
	submit := func(c *client.Client) (first api.ClaimedJob, child string) {
		t.Helper()
		made := client.Workflow().Add("first", api.SubmitRequest{Type: "first"}).Add("beside", api.SubmitRequest{Type: "beside"})
		for _, ref := range []string{"a", "b", "c"} {
			made.Add(ref, api.SubmitRequest{Type: "middle"}).After("first")
		}
		made.Add("join", api.SubmitRequest{Type: "join"}).After("a", "b", "c")
		stored, err := c.SubmitWorkflow(t.Context(), made)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := c.GetWorkflow(t.Context(), stored.ID)
		if err != nil {
			t.Fatal(err)
		}
		return stack.ClaimOne(t, c, "w", api.DefaultQueue, "first"), shown.Jobs[2].ID
	}
	complete := func(c *client.Client, job api.ClaimedJob) {
		t.Helper()
		if _, err := c.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
			t.Fatal(err)
		}
	}
	finish := func(c *client.Client, want ...string) {
		t.Helper()
		for _, jobType := range want {
			job := stack.ClaimOne(t, c, "w", api.DefaultQueue, jobType)
			if job.Attempt != 1 {
				t.Errorf("attempt %d of %s", job.Attempt, job.Type)
			}
			complete(c, job)
		}
	}
	// whole lets a workflow run to its end.
	whole := func(c *client.Client) {
		t.Helper()
		first, _ := submit(c)
		complete(c, first)
		finish(c, "beside", "middle", "middle", "middle", "join")
	}
	for _, long := range []bool{false, true} {
		first, child := submit(s.second)
		session := s.stop(`SELECT FROM jobs WHERE id = '`+child+`' FOR UPDATE`, `FROM jobs\s.*FOR UPDATE`, func() { complete(s.second, first) })
		whole(other)
		if long {
			s.awaitTimeout(session)
			finish(s.first, "beside", "middle", "middle", "middle", "join")
		}
		s.signal(syscall.SIGCONT)
		if !long {
			finish(s.first, "beside", "middle", "middle", "middle", "join")
		}
	}
	s.Cores[0].Kill()
	whole(s.second) // the core that was stopped
	if left := stack.Query[int](t.Context(), t, s.DatabaseURL, `SELECT count(*)::integer FROM follow_ups`); len(left) != 1 || left[0] != 0 {
		t.Errorf("follow-ups are left: %v", left)
	}
	if lines := s.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
}
