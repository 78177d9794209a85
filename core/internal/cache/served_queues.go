package cache

import (
	"context"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// servedEvery is how old what is known of served queues may get.
const servedEvery = 6 * time.Second

// Served is which queues have a worker, for warnings alone: a missing entry costs a needless
// warning.
type Served struct {
	mu     sync.RWMutex
	queues map[tenant.QueueKey]bool
	read   time.Time
}

// Refresh reads the tables if the copy is older than servedEvery.
func (s *Served) Refresh(ctx context.Context, store *cell.Cell) error {
	s.mu.RLock()
	fresh := time.Since(s.read) < servedEvery
	s.mu.RUnlock()
	if fresh {
		return nil
	}
	queues, err := store.Served(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues, s.read = queues, time.Now()
	return nil
}

// Seen records a worker that claims in this core.
func (s *Served) Seen(owner tenant.ID, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = map[tenant.QueueKey]bool{}
	}
	for _, name := range names {
		s.queues[tenant.QueueKey{Tenant: owner, Name: name}] = true
	}
}

// By says whether a worker of the tenant, or of the platform, serves the queue. Before the first
// read all queues count as served.
func (s *Served) By(owner tenant.ID, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.read.IsZero() || s.queues[tenant.QueueKey{Tenant: owner, Name: name}] || s.queues[tenant.QueueKey{Tenant: tenant.Platform, Name: name}]
}
