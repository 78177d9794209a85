package sweep_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// net is how late a job may be without a Kick; the rest is for
// a busy machine.
const net, slack = 5 * time.Second, 4 * time.Second

func (f *fixture) awaitWakeUp(within time.Duration) (took time.Duration) {
	f.Helper()
	start := time.Now()
	select {
	case <-f.batches:
		return time.Since(start)
	case <-time.After(within):
		f.Fatalf("nothing was promoted within %v", within)
		return 0
	}
}

func TestPromoteOnTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.duties().Promote()
	id := f.submit(1, 300*time.Millisecond)[0]
	f.run(p.Run)
	f.awaitWakeUp(net + slack)
	job := f.get(id)
	if job.State != api.StateQueued || f.count(`SELECT count(*) FROM jobs WHERE ready_at >= run_at`) != 1 {
		t.Errorf("job = %+v", job.JobSummary)
	}
	if f.wakeUps() != 1 {
		t.Errorf("%d wake-ups, want 1", f.wakeUps())
	}
}

// Many times, so that a Kick that got lost between a read and a sleep would show
// as a wait for the poll.
func TestKickForAnEarlierJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.duties().Promote()
	f.submit(1, time.Hour) // what it sleeps for otherwise
	f.run(p.Run)
	const rounds = 20
	var all time.Duration
	for range rounds {
		f.submit(1, 10*time.Millisecond)
		p.Kick()
		p.Kick()
		all += f.awaitWakeUp(net + slack)
	}
	if all > rounds*net/2 {
		t.Errorf("%d kicked jobs took %v: the poll found them, not the kicks", rounds, all)
	}
	if n := f.count(`SELECT count(*) FROM jobs WHERE state = 'scheduled'`); n != 1 {
		t.Errorf("%d jobs are scheduled, want the one that is not due", n)
	}
}

func TestPromoteFindsJobsWithoutAKick(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.duties().Promote()
	f.submit(1, time.Hour)
	f.run(p.Run)
	for range 2 {
		f.submit(1, 10*time.Millisecond)
		f.awaitWakeUp(net + slack)
	}
}

func TestHowLongThePromoterSleeps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.duties().Promote()
	sleep := func() time.Duration {
		t.Helper()
		next, err := p.RunOnce(t.Context())
		if err != nil || next <= 0 || next > net {
			t.Fatalf("RunOnce = %v, %v", next, err)
		}
		return next
	}
	if got := sleep(); got != net {
		t.Errorf("with nothing scheduled: %v", got)
	}
	f.submit(1, time.Hour)
	if got := sleep(); got != net {
		t.Errorf("with a job in an hour: %v", got)
	}
	f.submit(1, 700*time.Millisecond)
	if got := sleep(); got > 700*time.Millisecond {
		t.Errorf("with a job in 700 ms: %v", got)
	}
}

func TestPromoteMoreThanABatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(2500, time.Minute)
	f.exec(`UPDATE jobs SET run_at = statement_timestamp()`)
	p := f.duties().Promote()
	if _, err := p.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.count(`SELECT count(*) FROM jobs WHERE state = 'queued'`); n != 2500 || f.wakeUps() != 2500 {
		t.Errorf("%d queued, %d wake-ups, want 2500", n, f.wakeUps())
	}
}

func TestThePromoterOutlivesAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.duties().Promote()
	f.exec(`ALTER TABLE jobs RENAME TO away`)
	if next, err := p.RunOnce(t.Context()); err == nil || next != time.Second {
		t.Errorf("RunOnce = %v, %v", next, err)
	}
	f.run(p.Run)
	f.exec(`ALTER TABLE away RENAME TO jobs`)
	f.submit(1, 10*time.Millisecond)
	f.awaitWakeUp(2*net + slack)
}
