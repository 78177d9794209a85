package cache

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
)

const (
	// seenEvery is how often a claiming worker's row is written: well within the 30 s after which
	// it would count as stale.
	seenEvery = 5 * time.Second
	// knownWorkers bounds the cache: past it all entries are dropped.
	knownWorkers = 10_000
)

// Workers caches recently claiming workers, so that not every claim writes to the workers table.
type Workers struct {
	// joined counts workers that are new or were dead.
	joined prometheus.Counter
	mu     sync.Mutex
	known  map[WorkerKey]knownWorker
	// forgotten counts calls of Forget: what was read before one is not remembered after it.
	forgotten uint64
}

// WorkerKey names a worker.
type WorkerKey struct {
	Owner tenant.ID
	ID    string
}

type knownWorker struct {
	tags []string
	at   time.Time
}

// NewWorkers makes an empty cache that counts in joined.
func NewWorkers(joined prometheus.Counter) *Workers { return &Workers{joined: joined} }

// Seen records that the worker claims and gives the tags it claims with.
func (w *Workers) Seen(ctx context.Context, store *cell.Cell, key WorkerKey, queues, types []string, asked *[]string) (map[string]bool, error) {
	w.mu.Lock()
	worker, known := w.known[key]
	forgotten := w.forgotten
	w.mu.Unlock()
	if !known || time.Since(worker.at) > seenEvery {
		var tags []string
		if asked != nil {
			tags = *asked
		}
		row, joined, err := store.Workers.SeenClaiming(ctx, key.Owner, key.ID, workers.Claiming{Queues: queues, Types: types, Tags: tags})
		if err != nil {
			return nil, err
		}
		if joined {
			w.joined.Inc()
		}
		worker = knownWorker{tags: row.Tags, at: time.Now()}
		w.remember(key, worker, forgotten)
	}
	tags := worker.tags
	if asked != nil {
		tags = *asked
	}
	set := make(map[string]bool, len(tags))
	for _, tag := range tags {
		set[tag] = true
	}
	return set, nil
}

func (w *Workers) remember(key WorkerKey, worker knownWorker, forgotten uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.forgotten != forgotten {
		return
	}
	if w.known == nil || len(w.known) >= knownWorkers {
		w.known = map[WorkerKey]knownWorker{}
	}
	w.known[key] = worker
}

// Forget makes the next claim of the worker read its row.
func (w *Workers) Forget(key WorkerKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgotten++
	delete(w.known, key)
}

const (
	// leaseCountFresh is the minimum age of a lease count before the next one.
	leaseCountFresh = time.Second
	// leaseCountTime bounds a count, and the pause between two is leaseCountShare times its
	// duration.
	leaseCountTime  = 10 * time.Second
	leaseCountShare = 19
)

// Leases is the number of leases by worker, shared by registrations at about the same time.
type Leases struct {
	mu     sync.Mutex
	leases map[WorkerKey]int
	// read is when they were counted, validFor how long the counts are valid: counting takes at most a
	// twentieth of the time.
	read     time.Time
	validFor time.Duration
}

// Of gives how many leases a worker holds.
func (h *Leases) Of(ctx context.Context, store *cell.Cell, key WorkerKey) (int, error) {
	h.mu.Lock()
	if h.leases != nil && time.Since(h.read) < h.validFor {
		defer h.mu.Unlock()
		return h.leases[key], nil
	}
	// The others get the previous counts until this one has counted.
	begun := time.Now()
	h.read, h.validFor = begun, leaseCountTime
	if h.leases == nil {
		h.leases = map[WorkerKey]int{}
	}
	h.mu.Unlock()
	counted, err := store.Workers.Leases(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.validFor = 0
		return 0, err
	}
	h.leases = make(map[WorkerKey]int, len(counted))
	for _, one := range counted {
		h.leases[WorkerKey{one.Owner, one.WorkerID}] = one.Leases
	}
	h.validFor = min(max(leaseCountFresh, leaseCountShare*time.Since(begun)), leaseCountTime)
	return h.leases[key], nil
}
