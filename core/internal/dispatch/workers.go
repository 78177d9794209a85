package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// seenEvery is how often a claiming worker's row is written: well within the
	// 30 s after which it would count as stale.
	seenEvery = 5 * time.Second
	// knownWorkers bounds the memory: past it everything is forgotten and learnt anew.
	knownWorkers = 10_000
)

// workers remembers who has claimed lately, so that a claim is not a write to the
// workers table each time.
type workers struct {
	// joined counts those that are new, or back from the dead.
	joined prometheus.Counter
	mu     sync.Mutex
	known  map[workerKey]knownWorker
}

type workerKey struct {
	owner tenant.ID
	id    string
}

type knownWorker struct {
	tags []string
	at   time.Time
}

// seen notes that the worker claims and gives the tags it claims with.
func (w *workers) seen(ctx context.Context, store *cell.Cell, call ClaimCall) (map[string]bool, error) {
	key := workerKey{call.Owner, call.WorkerID}
	w.mu.Lock()
	worker, known := w.known[key]
	w.mu.Unlock()
	if !known || time.Since(worker.at) > seenEvery {
		var asked []string
		if call.Tags != nil {
			asked = *call.Tags
		}
		row, joined, err := store.SeenClaiming(ctx, call.Owner, call.WorkerID, call.Queues, asked)
		if err != nil {
			return nil, err
		}
		if joined {
			w.joined.Inc()
		}
		worker = knownWorker{tags: row.Tags, at: time.Now()}
		w.remember(key, worker)
	}
	tags := worker.tags
	if call.Tags != nil {
		tags = *call.Tags
	}
	set := make(map[string]bool, len(tags))
	for _, tag := range tags {
		set[tag] = true
	}
	return set, nil
}

func (w *workers) remember(key workerKey, worker knownWorker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil || len(w.known) >= knownWorkers {
		w.known = map[workerKey]knownWorker{}
	}
	w.known[key] = worker
}

func (w *workers) forget(key workerKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, key)
}

// Register makes or updates a worker.
func (d *Dispatcher) Register(ctx context.Context, owner tenant.ID, request api.WorkerRequest) (api.Worker, error) {
	worker, joined, err := d.store.Register(ctx, owner, request)
	if err != nil {
		return api.Worker{}, err
	}
	if joined {
		d.workers.joined.Inc()
	}
	d.workers.forget(workerKey{owner, request.WorkerID})
	d.served.seen(owner, request.Queues)
	if joined { // it was unknown, or dead and has lost its leases
		return worker.Wire(0), nil
	}
	leases, err := d.held.of(ctx, d.store, workerKey{owner, request.WorkerID})
	if err != nil {
		return api.Worker{}, err
	}
	return worker.Wire(leases), nil
}

// BeatWorker notes a worker's heartbeat; queue.ErrWorkerUnknown if it must register.
func (d *Dispatcher) BeatWorker(ctx context.Context, owner tenant.ID, workerID string) (string, error) {
	worker, err := d.store.BeatWorker(ctx, owner, workerID)
	return worker.Status, err
}

// heldFresh is how old what is known of held leases may get.
const heldFresh = time.Second

// held is how many leases workers hold, counted for all who register at about the same time.
type held struct {
	mu     sync.Mutex
	leases map[workerKey]int
	// read is when they were counted, rest for how long that is good: counting takes no
	// more than a twentieth of the time.
	read time.Time
	rest time.Duration
}

func (h *held) of(ctx context.Context, store *cell.Cell, key workerKey) (int, error) {
	h.mu.Lock()
	if h.leases != nil && time.Since(h.read) < h.rest {
		defer h.mu.Unlock()
		return h.leases[key], nil
	}
	// The others have what is known until this one has counted.
	begun := time.Now()
	h.read, h.rest = begun, statementTime
	if h.leases == nil {
		h.leases = map[workerKey]int{}
	}
	h.mu.Unlock()
	counted, err := store.Leases(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.rest = 0
		return 0, err
	}
	h.leases = make(map[workerKey]int, len(counted))
	for _, one := range counted {
		h.leases[workerKey{one.Owner, one.WorkerID}] = one.Leases
	}
	h.rest = max(heldFresh, rest(begun))
	return h.leases[key], nil
}
