package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// Options of a relay.
type Options struct {
	// Table is the outbox; its pool needs Senders + 2 connections. Required.
	Table *Table
	// Client sends the jobs; its key needs the scope submit. Required.
	Client *client.Client
	// Logger gets a line when sending begins to fail, or works again, and for each failed row. Nil: nothing is logged.
	Logger *slog.Logger
	// Batch is how many jobs a request has at most, 1 to 1,000; 500 if 0.
	Batch int
	// Senders is how many batches are sent at once; 4 if 0.
	Senders int
	// Poll is how often the outbox is read without a notification; a second if 0.
	Poll time.Duration
	// Lease is after what time another relay sends the batch of one that was killed, at least a second; 30 s if 0. A
	// request that takes longer is given up, and repeated.
	Lease time.Duration
	// Retain keeps sent rows for so long, with the id of their job; 0 deletes them at once.
	Retain time.Duration
}

const (
	defaultBatch   = 500
	defaultSenders = 4
	defaultPoll    = time.Second
	defaultLease   = 30 * time.Second
	leastLease     = time.Second
)

// Counts are what a relay has done since it was made.
type Counts struct {
	// Sent rows are jobs now. Failed rows were refused for good, Postponed ones for the time being.
	Sent, Failed, Postponed int64
	// Requests that were answered, and Errors: requests without a good answer, and statements that failed.
	Requests, Errors int64
}

// Relay sends what was committed to an outbox. Any number of relays may run on one.
type Relay struct {
	o     Options
	gate  gate
	wakes chan struct{}
	// turn is which source the next claim begins with.
	turn atomic.Uint64

	mu sync.Mutex
	// key is the last ordering key that a claim has looked at: the next one goes on after it.
	key string

	sent, failed, postponed, requests, errs atomic.Int64
}

// NewRelay makes a relay. It does nothing before Run.
func NewRelay(o Options) (*Relay, error) {
	var faults []error
	if o.Table == nil || o.Client == nil {
		faults = append(faults, errors.New("Table and Client are required"))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Batch, o.Senders = cmp.Or(o.Batch, defaultBatch), cmp.Or(o.Senders, defaultSenders)
	o.Poll, o.Lease = cmp.Or(o.Poll, defaultPoll), cmp.Or(o.Lease, defaultLease)
	if o.Batch < 1 || o.Batch > api.MaxBatchJobs {
		faults = append(faults, fmt.Errorf("the batch is %d: must be 1 to %d", o.Batch, api.MaxBatchJobs))
	}
	if o.Senders < 1 || o.Senders > 100 {
		faults = append(faults, fmt.Errorf("there are %d senders: must be 1 to 100", o.Senders))
	}
	if o.Poll < 10*time.Millisecond {
		faults = append(faults, fmt.Errorf("the poll is %v: must be at least 10ms", o.Poll))
	}
	if o.Lease < leastLease || o.Lease > time.Hour {
		faults = append(faults, fmt.Errorf("the lease is %v: must be 1s to 1h", o.Lease))
	}
	if o.Retain < 0 {
		faults = append(faults, fmt.Errorf("the retention is %v: must not be negative", o.Retain))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("outbox: %w", errors.Join(faults...))
	}
	return &Relay{o: o, wakes: make(chan struct{}, o.Senders)}, nil
}

// Counts are what the relay has done so far.
func (r *Relay) Counts() Counts {
	return Counts{r.sent.Load(), r.failed.Load(), r.postponed.Load(), r.requests.Load(), r.errs.Load()}
}

// Run sends until ctx ends, and then ends the batches in flight, which takes a lease at most. It waits for a database or a server that does
// not answer. The error is ErrNoSchema, before anything is sent; nil once ctx has ended.
func (r *Relay) Run(ctx context.Context) error {
	if err := r.begin(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	var group sync.WaitGroup
	for range r.o.Senders {
		group.Go(func() { r.sender(ctx) })
	}
	group.Go(func() { r.poll(ctx) })
	group.Go(func() { r.listen(ctx) })
	group.Go(func() { r.prune(ctx) })
	group.Wait()
	return nil
}

// begin waits for the database, and looks for its tables.
func (r *Relay) begin(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := within(ctx, r.o.Table.check)
		if err == nil || errors.Is(err, ErrNoSchema) {
			return err
		}
		r.failure(ctx, "look for the tables", err)
		_ = wait.For(ctx, backoff(failures))
	}
	return nil
}

// sender sends one batch after the other.
func (r *Relay) sender(ctx context.Context) {
	failures := 0
	for {
		if r.gate.wait(ctx) != nil {
			return
		}
		var b *batch
		err := within(ctx, func(ctx context.Context) (err error) { b, err = r.claim(ctx); return err })
		switch {
		case ctx.Err() != nil && b == nil:
			return
		case err != nil:
			r.failure(ctx, "claim", err)
			_ = wait.For(ctx, backoff(failures))
			failures++
		case b == nil:
			failures = 0
			select {
			case <-ctx.Done():
			case <-r.wakes:
			}
		default:
			failures = 0
			if b.tries > 1 || len(b.rows) > r.o.Batch/2 {
				r.wake() // there is likely to be more
			}
			r.process(ctx, b)
		}
	}
}

// poll wakes a sender from time to time: for rows that no notification told of, and those whose time has come.
func (r *Relay) poll(ctx context.Context) {
	for wait.About(ctx, r.o.Poll) == nil {
		r.wake()
	}
}

// wake lets one more sender look for rows.
func (r *Relay) wake() {
	select {
	case r.wakes <- struct{}{}:
	default: // all are going to look
	}
}

// failure notes what went wrong outside of a request.
func (r *Relay) failure(ctx context.Context, step string, err error) {
	if ctx.Err() != nil {
		return
	}
	r.errs.Add(1)
	r.o.Logger.WarnContext(ctx, "the outbox does not answer as it should; trying again", "step", step, "error", err.Error())
}

// statementTime bounds what is one transaction, or a few statements.
const statementTime = 20 * time.Second

// within runs statements with a bound.
func within(ctx context.Context, statements func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	return statements(ctx)
}

const (
	leastBackoff = 500 * time.Millisecond
	mostBackoff  = time.Minute
)

// backoff is how long to wait after so many failures before this one: doubled each time, up to a minute, by half of it
// random.
func backoff(before int) time.Duration {
	most := min(leastBackoff<<min(before, 10), mostBackoff)
	return most/2 + rand.N(most/2) //nolint:gosec // spreads load, guards nothing
}

// gate stops all senders of a relay for a while.
type gate struct {
	mu       sync.Mutex
	until    time.Time
	failures int
}

// wait returns once the gate is open; the error is ctx's.
func (g *gate) wait(ctx context.Context) error {
	for {
		g.mu.Lock()
		left := time.Until(g.until)
		g.mu.Unlock()
		if left <= 0 {
			return ctx.Err()
		}
		if err := wait.For(ctx, left); err != nil {
			return err
		}
	}
}

// close closes the gate for as long as the server asks, and at least for a backoff. It says for how long, and whether
// this is the first failure.
func (g *gate) close(asked time.Duration) (pause time.Duration, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	pause = max(asked, backoff(g.failures))
	first = g.failures == 0
	g.failures++
	if until := time.Now().Add(pause); until.After(g.until) {
		g.until = until
	}
	return pause, first
}

// open says that the server has answered, and whether there had been failures.
func (g *gate) open() (again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	again = g.failures > 0
	g.failures = 0
	return again
}
