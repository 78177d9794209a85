package auth

import (
	"container/list"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// cache remembers look-ups by key id, the least recently used leaving first. It
// holds found keys or missing ones, never both: a flood of invented ids must not
// push real keys out. What is too old, or forgotten, is not believed any more, but
// it is still known to have been there.
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
		return nil, false
	}
	c.recent.MoveToFront(element)
	return found.key, true
}

func (c *cache) put(id string, key *api.HopKey, now time.Time) { c.putFor(id, key, now, c.life) }

// putFor remembers a key for a shorter time.
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

// known gives what was remembered last, however long ago; nil for nothing.
func (c *cache) known(id string) *api.HopKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[id]; ok {
		return element.Value.(*entry).key //nolint:forcetypeassert // the list holds nothing else
	}
	return nil
}

// left gives for how long a key is believed from now on, the whole life where it has
// left the cache.
func (c *cache) left(id string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[id]; ok {
		return element.Value.(*entry).until.Sub(now) //nolint:forcetypeassert // the list holds nothing else
	}
	return c.life
}

// forget has what is remembered of a key believed no longer.
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

// drop removes a key, for one that is there no longer.
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
