package auth

import (
	"container/list"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// cache is an LRU of look-ups by key id. It holds found keys or missing ones, never
// both: a flood of invented ids must not evict real keys. An entry that is too old,
// or invalidated, is not used any more, but still shows that the key was there.
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

// get gives the key of a valid entry, and whether there is one.
func (c *cache) get(id string, now time.Time) (*api.HopKey, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[id]
	if !ok {
		return nil, false
	}
	found := element.Value.(*entry) //nolint:forcetypeassert // the list holds nothing else
	if !now.Before(found.until) {
		return nil, false
	}
	c.recent.MoveToFront(element)
	return found.key, true
}

func (c *cache) put(id string, key *api.HopKey, now time.Time) { c.putFor(id, key, now, c.life) }

// putFor stores a key for a shorter time.
func (c *cache) putFor(id string, key *api.HopKey, now time.Time, life time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[id]; ok {
		c.remove(element)
	}
	c.entries[id] = c.recent.PushFront(&entry{id, key, now.Add(life)})
	if c.recent.Len() > c.size {
		c.remove(c.recent.Back())
	}
}

// known gives the key of an entry of any age; nil for none.
func (c *cache) known(id string) *api.HopKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[id]; ok {
		return element.Value.(*entry).key //nolint:forcetypeassert // the list holds nothing else
	}
	return nil
}

// left gives for how long an entry is valid from now on, the whole life if it was
// evicted.
func (c *cache) left(id string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[id]; ok {
		return element.Value.(*entry).until.Sub(now) //nolint:forcetypeassert // the list holds nothing else
	}
	return c.life
}

// forget invalidates the entry of a key.
func (c *cache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[id]; ok {
		element.Value.(*entry).until = time.Time{} //nolint:forcetypeassert // the list holds nothing else
	}
}

// forgetWhere is forget for every key that match picks. It looks at all of them,
// some 10,000, which takes under a millisecond.
func (c *cache) forgetWhere(match func(*api.HopKey) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for element := c.recent.Front(); element != nil; element = element.Next() {
		if one := element.Value.(*entry); match(one.key) { //nolint:forcetypeassert // the list holds nothing else
			one.until = time.Time{}
		}
	}
}

// drop removes a key, for one that no longer exists.
func (c *cache) drop(id string) {
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
