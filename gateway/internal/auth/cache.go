package auth

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// cache is an LRU of look-ups by key id. It holds found keys or missing ones, never
// both: a flood of revoked keys must not evict valid ones. An entry that is too old,
// or invalidated, is not used any more.
type cache struct {
	life time.Duration

	mu      sync.Mutex
	entries *simplelru.LRU[string, *entry]
}

type entry struct {
	key   *hop.KeyRecord // nil in the cache of missing keys
	until time.Time
}

func newCache(size int, life time.Duration) *cache {
	entries, _ := simplelru.NewLRU[string, *entry](max(size, 1), nil) // it fails only for a size below 1
	return &cache{life: life, entries: entries}
}

// get gives the key of a valid entry, and whether there is one.
func (c *cache) get(id string, now time.Time) (*hop.KeyRecord, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.entries.Peek(id)
	if !ok || !now.Before(found.until) {
		return nil, false
	}
	_, _ = c.entries.Get(id) // it is the latest used
	return found.key, true
}

func (c *cache) put(id string, key *hop.KeyRecord, now time.Time) { c.putFor(id, key, now, c.life) }

// putFor stores a key for a shorter time.
func (c *cache) putFor(id string, key *hop.KeyRecord, now time.Time, life time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Add(id, &entry{key, now.Add(life)})
}

// left gives for how long an entry is valid from now on, the whole life if it was
// evicted.
func (c *cache) left(id string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.entries.Peek(id); ok {
		return found.until.Sub(now)
	}
	return c.life
}

// forget invalidates the entry of a key.
func (c *cache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.entries.Peek(id); ok {
		found.until = time.Time{}
	}
}

// forgetWhere is forget for every key that match picks. It looks at all of them,
// some 10,000, which takes under a millisecond.
func (c *cache) forgetWhere(match func(*hop.KeyRecord) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.entries.Values() {
		if match(one.key) {
			one.until = time.Time{}
		}
	}
}

// drop removes a key, for one that no longer exists.
func (c *cache) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Remove(id)
}
