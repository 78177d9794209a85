package faults_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
)

// pair is two PostgreSQL servers, one the standby of the other. A killed primary comes back at the
// same address, as a standby or as if nothing had happened.
type pair struct {
	t        *testing.T
	binaries supervisor.PostgresBinaries
	dirs     [2]string
	servers  [2]*supervisor.Postgres
	// primary is the index of the server that takes writes.
	primary int
}

// newPair starts a primary and its standby; commits wait for the standby if synchronous.
func newPair(t *testing.T, synchronous bool) *pair {
	t.Helper()
	installed, err := supervisor.FindPostgres(t.Context())
	if err != nil {
		t.Skip(err) // storetest fails where stores are demanded
	}
	dir := stack.Folder(t)
	p := &pair{t: t, binaries: installed, dirs: [2]string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}}
	t.Cleanup(func() {
		for _, server := range p.servers {
			if server != nil {
				_ = server.Stop(context.WithoutCancel(t.Context()))
			}
		}
	})
	p.start(0, nil)
	p.do(0, "CREATE DATABASE beside")
	p.follow(1, synchronous)
	return p
}

// start starts a server on the data that it has, or on none.
func (p *pair) start(i int, settings map[string]string) {
	p.t.Helper()
	all := map[string]string{"shared_buffers": "32MB", "autovacuum": "off"}
	maps.Copy(all, settings)
	server, err := supervisor.StartPostgres(p.t.Context(), supervisor.PostgresOptions{Binaries: p.binaries, DataDir: p.dirs[i], Settings: all})
	if err != nil {
		p.t.Fatal(err)
	}
	p.servers[i] = server
}

// follow makes server i, whose data is removed, a standby of the primary.
func (p *pair) follow(i int, synchronous bool) {
	p.t.Helper()
	if err := os.RemoveAll(p.dirs[i]); err != nil {
		p.t.Fatal(err)
	}
	source := p.servers[p.primary].URL("postgres")
	p.tool("pg_basebackup", "--pgdata="+p.dirs[i], "--wal-method=stream", "--checkpoint=fast", "--write-recovery-conf", "--dbname="+source)
	if err := os.Remove(filepath.Join(p.dirs[i], ".s.PGSQL.5432.lock")); err != nil { // of the primary's socket
		p.t.Fatal(err)
	}
	p.give(p.dirs[i], p.dirs[p.primary])
	p.start(i, map[string]string{"primary_conninfo": source})
	if synchronous {
		p.do(p.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
		p.do(p.primary, "SELECT pg_reload_conf()")
	}
	stack.Eventually(p.t, time.Minute, "the standby streams", func() bool {
		wanted := map[bool]string{true: "sync", false: "async"}[synchronous]
		states := stack.Query[string](p.t.Context(), p.t, source, "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'")
		return len(states) == 1 && states[0] == wanted
	})
}

// give makes a folder belong to whom another one belongs to: root runs pg_basebackup, and not PostgreSQL.
func (p *pair) give(dir, like string) {
	p.t.Helper()
	info, err := os.Stat(like)
	if err != nil {
		p.t.Fatal(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		p.t.Fatal("no owner")
	}
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// crash kills server i, its sessions too.
func (p *pair) crash(i int) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.servers[i].URL("postgres"))
	if err != nil {
		p.t.Fatal(err)
	}
	server := p.servers[i].Pid()
	if err := syscall.Kill(server, syscall.SIGSTOP); err != nil { // it makes no more sessions
		p.t.Fatal(err)
	}
	// Each is a process group of its own, and could take another statement after the server's end.
	rows, err := conn.Query(p.t.Context(), "SELECT pid FROM pg_stat_activity")
	if err != nil {
		p.t.Fatal(err)
	}
	sessions, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		p.t.Fatal(err)
	}
	for _, pid := range append(sessions, server) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // one may have ended by itself
	}
	<-p.servers[i].Done()
	_ = conn.Close(p.t.Context())
}

// promote makes the standby the primary.
func (p *pair) promote() {
	p.t.Helper()
	p.primary = 1 - p.primary
	p.do(p.primary, "SELECT pg_promote(true, 300)")
}

// do runs a statement on server i.
func (p *pair) do(i int, sql string) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.servers[i].URL("postgres"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.Close(p.t.Context()) }()
	if _, err := conn.Exec(p.t.Context(), sql); err != nil {
		p.t.Fatalf("%s: %v", sql, err)
	}
}

func (p *pair) tool(name string, args ...string) {
	p.t.Helper()
	command := exec.CommandContext(context.WithoutCancel(p.t.Context()), filepath.Join(p.binaries.Dir, name), args...)
	process := stack.StartCommand(p.t, command)
	if code := process.Wait(p.t, time.Minute); code != 0 {
		p.t.Fatalf("%s: exit code %d\n%s", name, code, process.Output())
	}
}

// url is of the database on both servers, always in the same order.
func (p *pair) url(string) string {
	query := url.Values{"host": {p.dirs[0] + "," + p.dirs[1]}, "port": {"5432,5432"}, "target_session_attrs": {"read-write"}}
	return "postgres://postgres@/beside?" + query.Encode()
}

// written is a number that rises with each transaction that writes on server i.
func (p *pair) written(i int) string {
	p.t.Helper()
	values := stack.Query[string](p.t.Context(), p.t, p.servers[i].URL("beside"), "SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
	if len(values) != 1 {
		p.t.Fatal("the old primary does not answer")
	}
	return values[0]
}

const refusedServers = `forgequeue_database_refused_servers_total{reason="old_timeline"}`

// The primary dies under load and the synchronous standby is promoted: no acknowledged job is lost, none is
// done twice, and core goes on without a restart. Then the old primary comes back as if it still were one:
// no core writes there, not even one that starts now, nor while the new primary is away.
func TestPrimaryFailsOver(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	c := stack.NewCluster(t, stack.ClusterOptions{
		Cores: 2, Gateways: 2, DatabaseURL: p.servers[0].URL("beside"), Through: p.url,
	})
	l := newLoad(t, c, 2*time.Second)
	stopWork := l.work(4, 10*time.Millisecond)
	stopSubmits := l.produce(8, 100_000, 10*time.Millisecond)
	failovers := lane(1, 30)
	var done []failover
	for i := range failovers {
		if i > 0 {
			p.follow(1-p.primary, true)
		}
		pace(t.Context(), moment(time.Second, 2*time.Second))
		done = append(done, l.failOver(p))
	}
	stopOld := l.oldPrimaryReturns(p)
	stopSubmits()
	l.drain(90 * time.Second)
	stopWork()
	stopOld()
	l.drift = c.Verify(t)
	if h, _ := l.check(); h.Count(disturbed) == 0 {
		t.Error("no failover got in the way of a request")
	}
	for _, core := range c.Cores {
		if timeline := core.Metric("forgequeue_database_timeline"); timeline != float64(failovers+1) {
			t.Errorf("a core is on timeline %v after %d failovers", timeline, failovers)
		}
	}
	logFailovers(t, done)
}

// failover is what was measured of one.
type failover struct {
	// acknowledged are the submits that were answered so far, lost those of them that the new primary does not have,
	// double the jobs that it has twice.
	acknowledged, lost, double int
	// away is from the kill to the first accepted submit, promoting how long PostgreSQL took for the promotion, and after
	// is from its end to that submit.
	away, promoting, after time.Duration
}

// failOver kills the primary and promotes the standby.
func (l *load) failOver(p *pair) (f failover) {
	l.t.Helper()
	killed := time.Now()
	p.crash(p.primary)
	pace(l.t.Context(), moment(0, 500*time.Millisecond))
	begun := time.Now()
	p.promote()
	promoted := time.Now()
	l.cluster.DatabaseURL = p.servers[p.primary].URL("beside")
	probe := l.client()
	stack.Eventually(l.t, time.Minute, "a submit is accepted after the promotion", func() bool { return l.trySubmit(probe) })
	f.away, f.promoting, f.after = time.Since(killed), promoted.Sub(begun), time.Since(promoted)
	accepted := slices.Collect(maps.Keys(invariants.Merge(l.noted.Events()).Accepted()))
	f.acknowledged = len(accepted)
	counts := stack.Query[[]int](l.t.Context(), l.t, l.cluster.DatabaseURL, `
WITH stored AS MATERIALIZED (SELECT id FROM jobs UNION ALL SELECT id FROM finished_jobs UNION ALL SELECT id FROM dead_letters)
SELECT ARRAY[
  (SELECT count(*) FROM unnest($1::uuid[]) AS id WHERE id NOT IN (SELECT id FROM stored))::integer,
  (SELECT count(*) - count(DISTINCT id) FROM stored)::integer
]`, accepted)
	if len(counts) != 1 {
		l.t.Fatal("the new primary does not answer")
	}
	if f.lost, f.double = counts[0][0], counts[0][1]; f.lost > 0 || f.double > 0 {
		l.t.Errorf("of %d acknowledged jobs %d are lost and %d stored twice", f.acknowledged, f.lost, f.double)
	}
	return f
}

// logFailovers logs a line for each, and the median and the worst.
func logFailovers(t *testing.T, done []failover) {
	t.Helper()
	var table strings.Builder
	row := func(name string, away, promoting, after time.Duration, rest string) {
		fmt.Fprintf(&table, "%-8s %7.2f s %8.2f s %8.2f s%s\n", name, away.Seconds(), promoting.Seconds(), after.Seconds(), rest)
	}
	fmt.Fprintf(&table, "\n%-8s %9s %10s %10s %14s %6s %6s\n", "failover", "no writes", "promotion", "after it", "acknowledged", "lost", "double")
	for i, f := range done {
		row(strconv.Itoa(i+1), f.away, f.promoting, f.after, fmt.Sprintf(" %14d %6d %6d", f.acknowledged, f.lost, f.double))
	}
	ranked := func(rank int, value func(failover) time.Duration) time.Duration {
		var all []time.Duration
		for _, f := range done {
			all = append(all, value(f))
		}
		slices.Sort(all)
		return all[rank]
	}
	for _, of := range []struct {
		name string
		rank int
	}{{"median", len(done) / 2}, {"worst", len(done) - 1}} {
		row(of.name, ranked(of.rank, func(f failover) time.Duration { return f.away }), ranked(of.rank, func(f failover) time.Duration { return f.promoting }),
			ranked(of.rank, func(f failover) time.Duration { return f.after }), "")
	}
	t.Log(table.String())
}

// oldPrimaryReturns starts the server that was the primary before, on its own data. stop checks that nobody
// has written there.
func (l *load) oldPrimaryReturns(p *pair) (stop func()) {
	l.t.Helper()
	c, old := l.cluster, 1-p.primary
	p.start(old, map[string]string{"synchronous_standby_names": ""}) // it does not wait for anybody
	if standby := stack.Query[bool](l.t.Context(), l.t, p.servers[old].URL("beside"), "SELECT pg_is_in_recovery()"); len(standby) != 1 || standby[0] {
		l.t.Fatalf("the old primary takes no writes: %v", standby)
	}
	p.do(old, "SELECT pg_current_xact_id()") // as a write would
	before := p.written(old)
	refusing := func(what string) {
		l.t.Helper()
		stack.Eventually(l.t, time.Minute, what, func() bool { return c.Cores[0].Metric(refusedServers) > 0 && c.Cores[1].Metric(refusedServers) > 0 })
	}
	refusing("both cores have seen the old primary")
	if !c.Cores[0].Kill() {
		l.t.Error("core had ended by itself")
	}
	c.Cores[0].Start()
	c.Cores[0].AwaitReady()
	refusing("a core that starts now has seen it too")

	p.crash(p.primary)
	plain := l.noted.Client(l.tenant.ID, &http.Transport{DisableKeepAlives: true})
	seen := [2]float64{c.Cores[0].Metric(refusedServers), c.Cores[1].Metric(refusedServers)}
	stack.Eventually(l.t, time.Minute, "both cores tried to connect", func() bool {
		if status := l.plainSubmit(plain); status == http.StatusAccepted {
			l.t.Error("a job was accepted while only the old primary was there")
		}
		return c.Cores[0].Metric(refusedServers) > seen[0]+1 && c.Cores[1].Metric(refusedServers) > seen[1]+1
	})
	if !strings.Contains(c.Cores[0].Output(), "it was the primary before a failover") {
		l.t.Errorf("core does not say why:\n%s", c.Cores[0].Output())
	}
	p.start(p.primary, nil)
	probe := l.client()
	stack.Eventually(l.t, time.Minute, "a submit is accepted by the new primary again", func() bool { return l.trySubmit(probe) })
	return func() {
		l.t.Helper()
		if after := p.written(old); after != before {
			l.t.Errorf("the old primary's next transaction was %s and is %s: somebody wrote there", before, after)
		}
	}
}
