package faults_test

import (
	"context"
	"fmt"
	"maps"
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
	furtherFault(t, "TestPostgresCrashesUnderLoad")
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
	// A claim takes at most 50 jobs: a fifth of them is ten claims or more.
	stack.Eventually(t, 15*time.Minute, "enough jobs were claimed", func() bool {
		return time.Since(from) > time.Duration(lane(3, 300))*time.Second && claimed.Load()-before >= int64(lane(2500, 100_000))
	})
	stop()
	group.Wait()
	until := time.Now()
	age, dead := held.proof(t)
	l.drain(time.Minute)
	stopWork()
	h, _ := l.check()
	first, last := claimsAtBothEnds(h, from, until)
	t.Logf("a snapshot of %d transactions ago, %d dead rows; %d jobs in %v; p99 of a claim %v at first, %v at last: %.2f; jobs claimed a second in the first and last fifth of the claims: %.0f, %.0f: %.2f",
		age, dead, submitted.Load(), until.Sub(from), first.p99, last.p99, last.over(first), first.perSecond, last.perSecond, last.perSecond/max(first.perSecond, 1))
	if inLongLane() && last.over(first) > 5 {
		t.Errorf("the p99 of a claim has become %.1f times what it was", last.over(first))
	}
	if least := int64(lane(8, 1000)); age < least || dead < submitted.Load()/2 || last.claims < int(least)/2 {
		t.Errorf("no fault: a snapshot of %d transactions ago, %d rows dead of %d jobs, %d claims in a fifth", age, dead, submitted.Load(), last.claims)
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

// claimFigures are of claims in a row that got jobs.
type claimFigures struct {
	claims, jobs int
	p99          time.Duration
	perSecond    float64 // jobs
}

func (f claimFigures) over(other claimFigures) float64 {
	return float64(f.p99) / float64(max(other.p99, time.Millisecond))
}

// claimsAtBothEnds looks at the first and at the last fifth of the claims between two
// moments that got jobs. They are fifths of the claims, not of the time: however slow
// the machine is, each holds as many as the other.
func claimsAtBothEnds(h invariants.History, from, until time.Time) (first, last claimFigures) {
	type name struct {
		actor string
		seq   int64
	}
	type claim struct {
		sent, done time.Time
		jobs       int
	}
	byName := map[name]*claim{}
	for _, e := range h.Events {
		if e.Op != invariants.OpClaim || e.Job == "" || e.Sent.Before(from) || e.Sent.After(until) {
			continue
		}
		n := name{e.Actor, e.Seq}
		if byName[n] == nil {
			byName[n] = &claim{sent: e.Sent, done: e.Done}
		}
		byName[n].jobs++
	}
	claims := slices.SortedFunc(maps.Values(byName), func(a, b *claim) int { return a.sent.Compare(b.sent) })
	figures := func(claims []*claim) claimFigures {
		f := claimFigures{claims: len(claims)}
		if len(claims) == 0 {
			return f
		}
		end := claims[0].done
		var took []time.Duration
		for _, c := range claims {
			f.jobs += c.jobs
			took = append(took, c.done.Sub(c.sent))
			if c.done.After(end) {
				end = c.done
			}
		}
		slices.Sort(took)
		f.p99 = took[len(took)*99/100]
		f.perSecond = float64(f.jobs) / max(end.Sub(claims[0].sent), time.Millisecond).Seconds()
		return f
	}
	fifth := len(claims) / 5
	return figures(claims[:fifth]), figures(claims[len(claims)-fifth:])
}
