package faults_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Somebody keeps a transaction open, as a report or a forgotten session does, and
// PostgreSQL can remove nothing that died since. Jobs are pushed through all the same,
// some of them by way of a delay, and at the end a claim is about as fast as at first.
func TestOldSnapshotHeldUnderLoad(t *testing.T) {
	t.Parallel()
	stack.NotOnCitus(t, "counts dead rows, which are the worker's")
	const backlog = 1000
	c := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, c, stack.Patience(30*time.Second))
	late := l.sameTenant()
	late.delay = 200 * time.Millisecond
	l.pile(l.client(), batchSize) // what comes first is slow for reasons of its own
	var claimed atomic.Int64
	stopWork := l.pushers(4, func(api.ClaimedJob) { claimed.Add(1) })
	l.drain(time.Minute)
	held := holdSnapshot(t, c.DatabaseURL)

	from := time.Now()
	before := claimed.Load()
	producing, stop := context.WithCancel(t.Context())
	defer stop()
	var submitted atomic.Int64
	var group sync.WaitGroup
	for i := range 4 {
		one, c := l, l.client()
		if i == 0 {
			one = late
		}
		group.Go(func() {
			for producing.Err() == nil {
				if submitted.Load()-(claimed.Load()-before) > backlog {
					pace(producing, 2*time.Millisecond)
					continue
				}
				n, err := one.batch(c, 100)
				if submitted.Add(int64(n)); err != nil {
					t.Errorf("a batch: %v", err)
					return
				}
			}
		})
	}
	// A fifth of it has to say something on a slow machine too.
	stack.Eventually(t, 15*time.Minute, "enough jobs were claimed", func() bool {
		return time.Since(from) > time.Duration(lane(3, 300))*time.Second && claimed.Load()-before >= int64(lane(2500, 100_000))
	})
	stop()
	group.Wait()
	until := time.Now()
	took := until.Sub(from)
	age, dead := held.proof(t)
	l.drain(time.Minute)
	stopWork()
	h, _ := l.check()
	first, last := claimsIn(h, from, from.Add(took/5)), claimsIn(h, until.Add(-took/5), until)
	t.Logf("a snapshot of %d transactions ago, %d dead rows; %d jobs in %v; p99 of a claim %v at first, %v at last: %.2f; jobs claimed in a fifth: %d, %d: %.2f",
		age, dead, submitted.Load(), took, first.p99, last.p99, last.over(first), first.jobs, last.jobs, float64(last.jobs)/float64(max(first.jobs, 1)))
	if inLongLane() && last.over(first) > 5 {
		t.Errorf("the p99 of a claim has become %.1f times what it was", last.over(first))
	}
	if least := int64(lane(8, 1000)); age < least || dead < submitted.Load()/2 || last.claims < int(least)/2 {
		t.Errorf("no fault: a snapshot of %d transactions ago, %d rows dead of %d jobs, %d claims at last", age, dead, submitted.Load(), last.claims)
	}
}

// sameTenant is a load of the same tenant's, with settings of its own and with the
// marks of this one.
func (l *load) sameTenant() *load {
	l.t.Helper()
	other := &load{t: l.t, cluster: l.cluster, tenant: l.tenant, noted: l.noted, dir: l.dir, urls: l.urls}
	other.made.Store(1 << 40)
	return other
}

// pushers are n workers of the tenant that claim and complete 50 jobs at a time.
func (l *load) pushers(n int, onClaim func(api.ClaimedJob)) (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var group sync.WaitGroup
	for i := range n {
		p := &platform{t: l.t, client: l.client(), id: fmt.Sprint("pusher-", i), most: 50, onClaim: onClaim}
		group.Go(func() { p.run(ctx) })
	}
	return func() { cancel(); group.Wait() }
}

// snapshot is a transaction that sees the database as it was.
type snapshot struct {
	url string
	pid int32
	tx  pgx.Tx
}

func holdSnapshot(t *testing.T, url string) *snapshot {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	s := &snapshot{url: url, pid: int32(conn.PgConn().PID())}
	if s.tx, err = conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}); err == nil {
		// The first statement takes the snapshot, and no lock on a table of ours.
		_, err = s.tx.Exec(t.Context(), `SELECT 1 FROM pg_class LIMIT 1`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// proof ends the transaction and says how many transactions ago it took its snapshot
// and how many rows of jobs are dead and had to stay.
func (s *snapshot) proof(t *testing.T) (age, dead int64) {
	t.Helper()
	// A vacuum counts what it may not remove; the transaction keeps it there.
	if conn, err := pgx.Connect(t.Context(), s.url); err != nil {
		t.Error(err)
	} else {
		if _, err := conn.Exec(t.Context(), `VACUUM jobs`); err != nil {
			t.Error(err)
		}
		_ = conn.Close(t.Context())
	}
	counted := stack.Query[int64](t.Context(), t, s.url, `SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'jobs'`)
	ages := stack.Query[int64](t.Context(), t, s.url, `SELECT age(backend_xmin)::bigint FROM pg_stat_activity WHERE pid = $1`, s.pid)
	var jobs int
	if err := s.tx.QueryRow(t.Context(), `SELECT count(*) FROM finished_jobs`).Scan(&jobs); err != nil || len(ages) != 1 || len(counted) != 1 {
		t.Fatalf("the snapshot was not held: %v", err)
	}
	if jobs > batchSize {
		t.Errorf("the snapshot is not old: it sees %d jobs that ended", jobs)
	}
	if err := s.tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	return ages[0], counted[0]
}

// claimFigures are of the claims that got jobs.
type claimFigures struct {
	claims, jobs int
	p99          time.Duration
}

func (f claimFigures) over(other claimFigures) float64 {
	return float64(f.p99) / float64(max(other.p99, time.Millisecond))
}

// claimsIn looks at the claims of some time that got jobs, with workers that do not
// wait for them: a wait takes as long as the jobs take to come.
func claimsIn(h invariants.History, from, until time.Time) claimFigures {
	f := claimFigures{}
	var took []time.Duration
	for _, e := range h.Events {
		if e.Op != invariants.OpClaim || e.Sent.Before(from) || e.Done.After(until) {
			continue
		}
		if e.Job != "" {
			f.jobs++
		}
		if e.Index == 1 { // its first job
			f.claims++
			took = append(took, e.Done.Sub(e.Sent))
		}
	}
	slices.SortFunc(took, cmp.Compare[time.Duration])
	if len(took) > 0 {
		f.p99 = took[len(took)*99/100]
	}
	return f
}
