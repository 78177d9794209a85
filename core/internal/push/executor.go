package push

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// mostAtOnce is how many jobs one claim may take.
	mostAtOnce = 100
	// claimWait is how long a claim waits for work. Between two claims the settings are read, and
	// the capacity of all queues is used again.
	claimWait = 250 * time.Millisecond
	// claimPause is about the pause after a failed claim.
	claimPause = 500 * time.Millisecond
	// idlePause is the minimum time of a claim that finds nothing.
	idlePause = 10 * time.Millisecond
	// One tenant may take a quarter of a core's slots, and one destination an eighth: a destination
	// that hangs does not block the others.
	tenantPart, destinationPart = 4, 8
)

// Options are what an Executor needs.
type Options struct {
	Engine   *engine.Engine
	Store    *cell.Cell
	Keys     *seal.Keys
	Outbound outbound.Options
	Brokers  broker.Protocols
	Metrics  *metrics.Push
	Logger   *slog.Logger
	// Tracer makes spans; nil makes none.
	Tracer trace.Tracer
	// Grace is how long calls may go on after the end of Run's context.
	Grace time.Duration
	// InFlight is how many calls may run at once.
	InFlight int
}

// Executor calls the destinations of queues in push mode.
type Executor struct {
	engine    *engine.Engine
	store     *cell.Cell
	keys      *seal.Keys
	transport *outbound.Transport
	protocols broker.Protocols
	brokers   *broker.Pool
	metrics   *metrics.Push
	log       *slog.Logger
	tracer    trace.Tracer
	grace     time.Duration
	workerID  string
	budget    budget
	// released makes a waiting claim scan again: capacity may have been released.
	released chan struct{}
	// changes are breakers' changes of state, for the log.
	changes chan breakerChange
	// copied is when the settings were last copied, changesSeen as of which change; used by Run alone.
	copied      time.Time
	changesSeen int

	lastCalls lastCalls

	mu       sync.Mutex
	most     int
	inFlight int
	byTenant map[tenant.ID]int
	targets  map[tenant.QueueKey]*target
	breakers map[breakerKey]*breaker
	// idle are breakers that no target has, since when.
	idle map[*breaker]time.Time
}

// New makes an Executor; Run works.
func New(o Options) *Executor {
	return &Executor{
		engine: o.Engine, store: o.Store, keys: o.Keys, transport: outbound.NewTransport(o.Outbound), protocols: o.Brokers, brokers: broker.NewPool(o.Outbound, o.Brokers),
		metrics: o.Metrics, log: o.Logger, tracer: o.Tracer, grace: o.Grace, workerID: "push:" + uuid.NewString(), released: make(chan struct{}, 1), changes: make(chan breakerChange, 64),
		most: o.InFlight, byTenant: map[tenant.ID]int{}, targets: map[tenant.QueueKey]*target{}, breakers: map[breakerKey]*breaker{}, idle: map[*breaker]time.Time{},
	}
}

// errDrained cancels calls that outlast the grace.
var errDrained = errors.New("push: this core stops")

// Run claims and calls until ctx ends; then running calls may end within the grace, and the others
// are returned, attempts included.
func (e *Executor) Run(ctx context.Context) error {
	defer e.transport.Close()
	calls, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	var tellers, group sync.WaitGroup
	tellers.Go(func() { e.logChanges(calls) })
	tellers.Go(func() { e.recordLastCalls(calls) })
	connections, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	tellers.Go(func() { e.brokers.Run(connections) })
	defer tellers.Wait()
	defer disconnect() // no call is made any more
	defer stop(errDrained)
	for ctx.Err() == nil {
		begun := time.Now()
		e.copySettings(ctx)
		jobs, err := e.claim(ctx)
		if err != nil && ctx.Err() == nil {
			e.log.WarnContext(ctx, "jobs to push are not claimed", "error", err)
			_ = wait.About(ctx, claimPause)
		}
		e.start(calls, &group, jobs)
		if len(jobs) == 0 && time.Since(begun) < idlePause {
			_ = wait.About(ctx, idlePause) // no claim waits any more: this core is draining
		}
	}
	ended := make(chan struct{})
	go func() { group.Wait(); close(ended) }()
	grace := time.NewTimer(e.grace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		stop(errDrained)
		<-ended
	}
	return nil
}

func (e *Executor) claim(ctx context.Context) ([]claim.Job, error) {
	most := e.maxNow()
	if most == 0 {
		e.wait(ctx)
		return nil, nil
	}
	return e.engine.Claims.Claim(ctx, claims.Call{
		Owner: tenant.Platform, WorkerID: e.workerID, Push: true, Capacity: e.Capacity, CapacityReleased: e.released, Max: most, Wait: claimWait,
	})
}

// wait waits until there may be capacity.
func (e *Executor) wait(ctx context.Context) {
	timer := time.NewTimer(copyEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-e.released:
	case <-timer.C:
	}
}

// start calls for each admitted job, and returns the others.
func (e *Executor) start(calls context.Context, group *sync.WaitGroup, jobs []claim.Job) {
	if len(jobs) == 0 {
		return
	}
	received := time.Now()
	var excess []claim.Job
	for i := range jobs {
		settings := e.engine.Cached.Settings(jobs[i].TenantID, jobs[i].Queue)
		t := e.targetOf(calls, &settings)
		if t == nil || !e.admit(t) {
			excess = append(excess, jobs[i])
			continue
		}
		group.Go(func() { e.execute(calls, t, &jobs[i], received) })
	}
	e.metrics.Outcomes.WithLabelValues(wordGivenBack).Add(float64(len(excess)))
	e.engine.Claims.GiveBack(calls, excess)
}

// changed records a breaker's change of state.
func (e *Executor) changed(key breakerKey, from, to gobreaker.State) {
	e.metrics.BreakerChanges.WithLabelValues(to.String()).Inc()
	if to == gobreaker.StateOpen && from == gobreaker.StateClosed {
		e.metrics.BreakersOpen.Inc()
	}
	if to == gobreaker.StateClosed {
		e.metrics.BreakersOpen.Dec()
	}
	select {
	case e.changes <- breakerChange{key, from, to}:
	default: // the log line is dropped, the metric is not
	}
	e.kick()
}

type breakerChange struct {
	key      breakerKey
	from, to gobreaker.State
}

// logChanges writes breakers' changes to the log: they happen under locks, which must not wait for it.
func (e *Executor) logChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-e.changes:
			e.log.InfoContext(ctx, "a breaker has changed", "tenant", c.key.tenant, "destination", c.key.destination,
				"from", c.from.String(), "to", c.to.String())
		}
	}
}

// kick makes a waiting claim scan again.
func (e *Executor) kick() {
	select {
	case e.released <- struct{}{}:
	default: // a kick is pending
	}
}
