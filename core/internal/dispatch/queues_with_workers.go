package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// servedEvery is how old what is known of served queues may get.
const servedEvery = 6 * time.Second

// served is which queues have a worker, for warnings alone: what it does not know
// yet costs a needless word.
type served struct {
	mu     sync.RWMutex
	queues map[tenant.QueueKey]bool
	read   time.Time
}

// refresh reads the tables now and then.
func (s *served) refresh(ctx context.Context, store *cell.Cell) error {
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

// seen notes a worker that asks here.
func (s *served) seen(owner tenant.ID, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = map[tenant.QueueKey]bool{}
	}
	for _, name := range names {
		s.queues[tenant.QueueKey{Tenant: owner, Name: name}] = true
	}
}

// by says whether a worker of the tenant, or of the platform, serves the queue.
// Before the first look nothing is said to be unserved.
func (s *served) by(owner tenant.ID, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.read.IsZero() || s.queues[tenant.QueueKey{Tenant: owner, Name: name}] || s.queues[tenant.QueueKey{Tenant: tenant.Platform, Name: name}]
}
