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

// Served is which queues and types have a worker, for warnings alone: a missing entry costs a
// needless warning.
type Served struct {
	mu     sync.RWMutex
	queues map[tenant.QueueKey]servedTypes
	read   time.Time
}

// servedTypes are the types of a queue's jobs that have a worker; "" stands for all types.
type servedTypes map[string]bool

// Refresh reads the tables if the copy is older than servedEvery.
func (s *Served) Refresh(ctx context.Context, store *cell.Cell) error {
	s.mu.RLock()
	fresh := time.Since(s.read) < servedEvery
	s.mu.RUnlock()
	if fresh {
		return nil
	}
	queues, err := store.Workers.Served(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues, s.read = map[tenant.QueueKey]servedTypes{}, time.Now()
	for _, one := range queues {
		s.add(one.QueueKey, one.Types)
	}
	return nil
}

// add records a worker for some types of a queue, nil for all. The caller holds the lock.
func (s *Served) add(key tenant.QueueKey, types []string) {
	if s.queues == nil {
		s.queues = map[tenant.QueueKey]servedTypes{}
	}
	if s.queues[key] == nil {
		s.queues[key] = servedTypes{}
	}
	if types == nil {
		s.queues[key][""] = true
	}
	for _, jobType := range types {
		s.queues[key][jobType] = true
	}
}

// Seen records a worker that claims in this core; types is nil for all.
func (s *Served) Seen(owner tenant.ID, names, types []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.add(tenant.QueueKey{Tenant: owner, Name: name}, types)
	}
}

// By says whether workers of the tenant, or of the platform, serve the queue at all, and jobs of
// the type in it. Before the first read all queues count as served.
func (s *Served) By(owner tenant.ID, name, jobType string) (queue, ofType bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.read.IsZero() {
		return true, true
	}
	own, platform := s.queues[tenant.QueueKey{Tenant: owner, Name: name}], s.queues[tenant.QueueKey{Tenant: tenant.Platform, Name: name}]
	return own != nil || platform != nil, own[""] || own[jobType] || platform[""] || platform[jobType]
}
