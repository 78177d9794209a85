package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"         //nolint:depguard // River's own driver takes it
	"github.com/jackc/pgx/v5/pgxpool" //nolint:depguard // likewise
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/forgequeue/forgequeue/shared/wait"
)

// peer is River as a library, in this process, as its users run it. The measures
// are those of the peers' program that set the bars: see PERFORMANCE.md.
type peer struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	log    *slog.Logger
}

// payload is of the size that our jobs have.
const payload = `user@example.com welcome Ada pro 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 user@example.com welcome Ada pro 00-4bf92f3577b34da6a3ce929d0e0e4736-00f0`

type noop struct {
	At  int64  `json:"at"`
	Pad string `json:"pad"`
}

// Kind is River's name for a type of job.
func (noop) Kind() string { return "noop" }

const (
	// What River's own bench command uses: its cooldown, its poll, its workers, and
	// how far it inserts ahead.
	fetchCooldown = 2 * time.Millisecond
	fetchPoll     = 20 * time.Millisecond
	workers       = 2000
	insertBatch   = 5000
	ahead         = 75_000
	connections   = 64
)

func newPeer(ctx context.Context, m *machine) (*peer, error) {
	url, err := m.database(ctx, "river")
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	p := &peer{log: slog.New(slog.DiscardHandler)}
	if p.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(p.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err == nil {
		p.client, err = river.NewClient(driver, &river.Config{Logger: p.log})
	}
	if err != nil {
		p.pool.Close()
		return nil, fmt.Errorf("river: %w", err)
	}
	return p, nil
}

func (p *peer) close() { p.pool.Close() }

func (p *peer) empty(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, "TRUNCATE river_job")
	return err
}

// bestInsert is jobs inserted a second, one at a time: the best of several numbers
// of goroutines, a quarter of the time for each.
func (p *peer) bestInsert(ctx context.Context, during time.Duration) (float64, error) {
	best := 0.0
	for _, goroutines := range []int{1, 8, 32, connections} {
		rate, err := p.insert(ctx, goroutines, during)
		if err != nil {
			return 0, err
		}
		best = max(best, rate)
	}
	return best, nil
}

func (p *peer) insert(ctx context.Context, goroutines int, during time.Duration) (float64, error) {
	if err := p.empty(ctx); err != nil {
		return 0, err
	}
	var inserted atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, goroutines)
	begun := time.Now()
	for i := range goroutines {
		group.Go(func() {
			for time.Since(begun) < during && errs[i] == nil {
				if _, errs[i] = p.client.Insert(ctx, noop{Pad: payload}, nil); errs[i] == nil {
					inserted.Add(1)
				}
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(inserted.Load()) / time.Since(begun).Seconds(), nil
}

type riverWorker struct {
	river.WorkerDefaults[noop]
	started func(noop)
}

// Work is River's word for an attempt.
func (w *riverWorker) Work(_ context.Context, job *river.Job[noop]) error {
	w.started(job.Args)
	return nil
}

// working starts a client that works as River's bench does.
func (p *peer) working(started func(noop)) (*river.Client[pgx.Tx], error) {
	all := river.NewWorkers()
	river.AddWorker(all, &riverWorker{started: started})
	return river.NewClient(riverpgxv5.New(p.pool), &river.Config{
		Logger: p.log, Workers: all, FetchCooldown: fetchCooldown, FetchPollInterval: fetchPoll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
	})
}

// fill queues jobs: fast by COPY, as its users fill a queue, or as its own bench does.
func (p *peer) fill(ctx context.Context, n int, fast bool) error {
	insert := p.client.InsertMany
	if fast {
		insert = func(ctx context.Context, batch []river.InsertManyParams) ([]*rivertype.JobInsertResult, error) {
			_, err := p.client.InsertManyFast(ctx, batch)
			return nil, err
		}
	}
	for n > 0 {
		batch := make([]river.InsertManyParams, min(n, insertBatch))
		for i := range batch {
			batch[i] = river.InsertManyParams{Args: noop{Pad: payload}}
		}
		if _, err := insert(ctx, batch); err != nil {
			return err
		}
		n -= len(batch)
	}
	return nil
}

// worked is jobs a second: queued beforehand, then worked until all are completed.
func (p *peer) worked(ctx context.Context, jobs int) (float64, error) {
	if err := p.empty(ctx); err != nil {
		return 0, err
	}
	if err := p.fill(ctx, jobs, true); err != nil {
		return 0, err
	}
	var done atomic.Int64
	client, err := p.working(func(noop) { done.Add(1) })
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { _ = client.Stop(context.WithoutCancel(ctx)) }()
	for left := 1; left > 0; {
		if err := wait.For(ctx, 2*time.Millisecond); err != nil {
			return 0, err
		}
		if done.Load() < int64(jobs) {
			continue // no query beside the work before the last job has run
		}
		const open = "SELECT count(*) FROM (SELECT 1 FROM river_job WHERE state <> 'completed' LIMIT 1) AS x"
		if err := p.pool.QueryRow(ctx, open).Scan(&left); err != nil {
			return 0, err
		}
	}
	return float64(jobs) / time.Since(begun).Seconds(), nil
}

// bench is jobs completed a second while jobs are inserted so that there are always
// some: the way River's own bench command measures. That command is no module of the
// Go proxy, so this is a program of the same shape.
func (p *peer) bench(ctx context.Context, during time.Duration) (float64, error) {
	if err := p.empty(ctx); err != nil {
		return 0, err
	}
	client, err := p.working(func(noop) {})
	if err != nil {
		return 0, err
	}
	// Counted when the completer is through with it, not when it has run.
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: ahead, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	defer unsubscribe()
	var left, completed atomic.Int64
	var group sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	defer group.Wait()
	defer stop()
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case event := <-events:
				if event == nil {
					return
				}
				left.Add(-1)
				completed.Add(1)
			}
		}
	})
	if err := p.fill(ctx, ahead, false); err != nil {
		return 0, err
	}
	left.Add(ahead)
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { _ = client.Stop(context.WithoutCancel(ctx)) }()
	begun := time.Now()
	for time.Since(begun) < during {
		if left.Load() < ahead {
			if err := p.fill(ctx, insertBatch, false); err != nil {
				return 0, err
			}
			left.Add(insertBatch)
			continue
		}
		time.Sleep(time.Millisecond)
	}
	return float64(completed.Load()) / time.Since(begun).Seconds(), nil
}
