package stats

import (
	"context"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// recorder holds counts by key until they are appended to a table. Its memory is bounded by room.
type recorder[K comparable, C any] struct {
	// add adds counts of a key to others; events is how many events they are.
	add    func(key K, to, more *C)
	events func(counts *C) int64
	// room gives the key under which counts of a new key are held; false where there is no room for them.
	room func(held map[K]*C, key K) (K, bool)

	mu   sync.Mutex
	held map[K]*C
	// last is the one that was added to last: events come in runs.
	last     K
	lastHeld *C
	lost     int64
}

// record adds counts. The caller holds the lock.
func (r *recorder[K, C]) record(key K, more *C) {
	if r.lastHeld != nil && r.last == key {
		r.add(key, r.lastHeld, more)
		return
	}
	counts := r.held[key]
	if counts == nil {
		var ok bool
		if key, ok = r.room(r.held, key); !ok {
			r.lost += r.events(more)
			return
		}
		if counts = r.held[key]; counts == nil {
			if r.held == nil {
				r.held = map[K]*C{}
			}
			counts = new(C)
			r.held[key] = counts
		}
	}
	r.add(key, counts, more)
	r.last, r.lastHeld = key, counts
}

// Take gives what was recorded, and forgets it. lost is how many events found no room.
func (r *recorder[K, C]) Take() (pending map[K]*C, lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending, lost = r.held, r.lost
	r.held, r.lastHeld, r.lost = nil, nil, 0
	return pending, lost
}

// Restore records again what Take gave.
func (r *recorder[K, C]) Restore(pending map[K]*C) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, counts := range pending {
		r.record(key, counts)
	}
}

// Append appends what was recorded since the last time; appended says that there was something. Counts that were
// not appended for certain are kept for the next time; where the outcome is unknown they are lost, so that none is
// appended twice.
func (r *recorder[K, C]) Append(ctx context.Context, appendAll func(context.Context, map[K]*C) error) (appended bool, lost int64, err error) {
	pending, lost := r.Take()
	if len(pending) == 0 {
		return false, lost, nil
	}
	switch err = appendAll(ctx, pending); {
	case err == nil:
		appended = true
	case store.Definite(err):
		r.Restore(pending)
	default:
		for _, counts := range pending {
			lost += r.events(counts)
		}
	}
	return appended, lost, err
}
