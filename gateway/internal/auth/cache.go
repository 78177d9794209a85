package auth

import (
	"container/list"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// cache remembers look-ups by key id, the least recently used leaving first. It
// holds found keys or missing ones, never both: a flood of invented ids must not
// push real keys out.
type cache struct {
	size int
	life time.Duration

	mu      sync.Mutex
	entries map[string]*list.Element
	recent  *list.List // of *entry, latest use in front
}

type entry struct {
	id    string
	key   *api.HopKey // nil in the cache of missing keys
	until time.Time
}

func newCache(size int, life time.Duration) *cache {
	return &cache{size: size, life: life, entries: map[string]*list.Element{}, recent: list.New()}
}

// get gives what is remembered, and whether anything is.
func (c *cache) get(id string, now time.Time) (*api.HopKey, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[id]
	if !ok {
		return nil, false
	}
	found := element.Value.(*entry) //nolint:forcetypeassert // the list holds nothing else
	if !now.Before(found.until) {
		c.remove(element)
		return nil, false
	}
	c.recent.MoveToFront(element)
	return found.key, true
}

func (c *cache) put(id string, key *api.HopKey, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[id]; ok {
		c.remove(element)
	}
	c.entries[id] = c.recent.PushFront(&entry{id, key, now.Add(c.life)})
	if c.recent.Len() > c.size {
		c.remove(c.recent.Back())
	}
}

func (c *cache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[id]; ok {
		c.remove(element)
	}
}

// remove needs mu.
func (c *cache) remove(element *list.Element) {
	c.recent.Remove(element)
	delete(c.entries, element.Value.(*entry).id) //nolint:forcetypeassert // the list holds nothing else
}
