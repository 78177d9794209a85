package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// server is one of the job servers that are compared, with a worker and callers of its Go SDK.
type server interface {
	// load has its SDK's program do something.
	load(ctx context.Context, o order) (loaded, error)
	// processes are the ids of the server's own processes; broker is that of what it needs beside PostgreSQL, 0 for none.
	processes() []int
	broker() int
	// crash kills the server's own processes; launch starts them, and returns at once or when they are ready.
	crash()
	launch(ctx context.Context) error
	database() string
	stop()
}

// Rows of the table of servers.
const (
	rowSingle     = "single submits by 64 callers, jobs done/s"
	rowBatches    = "by 500, 4 at once, jobs done/s"
	rowIdle       = "idle: submit → function starts, p50 ms"
	rowAnswered   = "idle: submit answered → function starts, p50 ms"
	rowCPUSingle  = "CPU of servers, broker and PostgreSQL, single, ms a job"
	rowCPUBatches = "the same, by 500, ms a job"
	rowWALSingle  = "WAL, single, kB a job"
	rowWALBatches = "WAL, by 500, kB a job"
	rowRows       = "rows inserted, updated and deleted, single, a job"
	rowMemory     = "memory of the servers after the load, MB"
	rowBroker     = "memory of Redis or RabbitMQ after the load, MB"
	rowStatements = "statements a second when idle"
	rowCrash      = "SIGKILL of the servers: restart → a job starts, s"
)

func rows() []string {
	return []string{
		rowSingle, rowBatches, rowIdle, rowAnswered, rowCPUSingle, rowCPUBatches, rowWALSingle, rowWALBatches, rowRows,
		rowMemory, rowBroker, rowStatements, rowCrash,
	}
}

// Columns of the table of servers.
const (
	columnOurs     = "ForgeQueue"
	columnRabbit   = "Hatchet + RabbitMQ"
	columnPostgres = "Hatchet on PostgreSQL"
)

func columns() []string { return []string{columnOurs, columnRabbit, columnPostgres} }

// warmJobs are started one after the other before anything is measured: a scheduler gets to know its worker.
const warmJobs = 20

// servers runs each server in turn, on a fresh database of the same PostgreSQL server.
func servers(ctx context.Context, m *machine, o *options, round int, into *results) {
	start := map[string]func(context.Context) (server, error){
		columnOurs: func(ctx context.Context) (server, error) { return startOurs(ctx, m) },
	}
	if m.hatchet != nil {
		start[columnPostgres] = func(ctx context.Context) (server, error) { return m.hatchet.startPostgres(ctx, m) }
		start[columnRabbit] = func(ctx context.Context) (server, error) { return m.hatchet.startRabbitMQ(ctx, m) }
	}
	for _, column := range columns() {
		if start[column] == nil {
			continue
		}
		if ctx.Err() != nil {
			into.cut = true
			into.note("round %d: %s: left out, the budget is used up", round+1, column)
			continue
		}
		one, err := start[column](ctx)
		if err != nil {
			into.note("round %d: %s: %v", round+1, column, err)
			continue
		}
		func() {
			defer one.stop()
			err = measureServer(ctx, m, o, one, cells{into, column, round})
		}()
		if err != nil {
			into.note("round %d: %s: %v", round+1, column, err)
		}
	}
}

// cells are those of one column and round.
type cells struct {
	into   *results
	column string
	round  int
}

func (c cells) add(row string, value float64) {
	fmt.Printf("round %d\t%-22s %-56s %12.2f\tload %s\n", c.round+1, c.column, row, value, load())
	c.into.add(c.round, serverMeasure(row, c.column), value)
}

// serverMeasure is the name of a cell's measure.
func serverMeasure(row, column string) string { return column + ": " + row }

// serverJobs is how many jobs are submitted by 500: as many as a server does in some seconds.
func (o *options) serverJobs(column string) int {
	if column == columnOurs {
		return o.workJobs
	}
	return max(o.workJobs/25, batchCallers*batchJobs)
}

func measureServer(ctx context.Context, m *machine, o *options, one server, into cells) error {
	if _, err := one.load(ctx, order{Do: "first", Jobs: warmJobs}); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	idle, err := one.load(ctx, order{Do: "idle", Jobs: o.idleJobs()})
	if err != nil {
		return fmt.Errorf("idle: %w", err)
	}
	into.add(rowIdle, idle.Start)
	into.add(rowAnswered, idle.Answered)
	for _, part := range []struct {
		order          order
		rate, cpu, wal string
	}{
		{order{Do: "single", For: o.timed}, rowSingle, rowCPUSingle, rowWALSingle},
		{order{Do: "batches", Jobs: o.serverJobs(into.column)}, rowBatches, rowCPUBatches, rowWALBatches},
	} {
		// PostgreSQL's sessions say within loadSettle what they have written.
		rows, err := m.written(ctx, one, loadSettle)
		if err != nil {
			return err
		}
		before, err := m.used(ctx, one)
		if err != nil {
			return err
		}
		done, err := one.load(ctx, part.order)
		if err != nil {
			return fmt.Errorf("%s: %w", part.order.Do, err)
		}
		if done.Failed > 0 {
			into.into.note("round %d: %s: %d jobs were refused, such as by: %s", into.round+1, into.column, done.Failed, done.Example)
		}
		// A job is done when its outcome is stored, too: what is still on its way costs as much as what was measured.
		if err := pause(ctx, outcomeTime); err != nil {
			return err
		}
		after, err := m.used(ctx, one)
		if err != nil {
			return err
		}
		into.add(part.rate, float64(done.Jobs)/done.Seconds)
		into.add(part.cpu, (after.cpu-before.cpu)*1000/float64(done.Jobs))
		into.add(part.wal, (after.wal-before.wal)/1000/float64(done.Jobs))
		now, err := m.written(ctx, one, loadSettle)
		if err != nil {
			return err
		}
		if part.rate == rowSingle {
			into.add(rowRows, (now-rows)/float64(done.Jobs))
		}
	}
	memory := 0.0
	for _, pid := range one.processes() {
		memory += resident(pid)
	}
	into.add(rowMemory, memory)
	if broker := one.broker(); broker > 0 {
		into.add(rowBroker, resident(broker))
	}
	if err := m.idleStatements(ctx, one, into); err != nil {
		return err
	}
	one.crash()
	begun := time.Now()
	if err := one.launch(ctx); err != nil {
		return fmt.Errorf("after SIGKILL: %w", err)
	}
	if _, err := one.load(ctx, order{Do: "first", Jobs: 1}); err != nil {
		return fmt.Errorf("after SIGKILL: %w", err)
	}
	into.add(rowCrash, time.Since(begun).Seconds())
	return nil
}

// outcomeTime is how long the last outcomes and the servers' own records of them may take to be stored.
const outcomeTime = 3 * time.Second

// loadSettle is the time between the load and a count of PostgreSQL's.
const loadSettle = 11 * time.Second

func (m *machine) idleStatements(ctx context.Context, one server, into cells) error {
	if err := m.track(ctx, "top"); err != nil {
		return err
	}
	err := pause(ctx, loadSettle)
	if err == nil {
		var statements float64
		if statements, err = m.statements(ctx, one.database(), idleTime); err == nil {
			into.add(rowStatements, statements/idleTime.Seconds())
		}
	}
	return errors.Join(err, m.track(context.WithoutCancel(ctx), "none"))
}

// track has PostgreSQL count the statements of all sessions, or of none.
func (m *machine) track(ctx context.Context, what string) error {
	admin := m.postgres.URL("postgres")
	for _, sql := range []string{
		"CREATE EXTENSION IF NOT EXISTS pg_stat_statements", "ALTER SYSTEM SET pg_stat_statements.track = '" + what + "'", "SELECT pg_reload_conf()",
	} {
		if err := m.ask(ctx, admin, sql, nil); err != nil {
			return err
		}
	}
	return nil
}

// usage is what a server, its broker and PostgreSQL have used so far: seconds of CPU and bytes of WAL.
type usage struct{ cpu, wal float64 }

func (m *machine) used(ctx context.Context, one server) (u usage, err error) {
	times, err := allTimes()
	if err != nil {
		return u, err
	}
	for _, pid := range append(one.processes(), m.postgres.Pid(), one.broker()) {
		u.cpu += times[pid]
	}
	err = m.ask(ctx, m.postgres.URL("postgres"), "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8", &u.wal)
	return u, err
}

// written is how many rows were written in a server's database so far, a while ago.
func (m *machine) written(ctx context.Context, one server, ago time.Duration) (rows float64, err error) {
	if err := pause(ctx, ago); err != nil {
		return 0, err
	}
	const sql = "SELECT (tup_inserted + tup_updated + tup_deleted)::float8 FROM pg_stat_database WHERE datname = '"
	err = m.ask(ctx, m.postgres.URL("postgres"), sql+nameOf(one.database())+"'", &rows)
	return rows, err
}
