package jobtype

import (
	"container/list"
	"sync"
)

// compiled are schemas, the least recently used of which go when they take more than most bytes.
type compiled struct {
	most int

	mu     sync.Mutex
	bytes  int
	recent *list.List // of *entry, the last used first
	byKey  map[schemaKey]*list.Element
}

// schemaKey names a schema. It never changes: the next one of the type has another revision.
type schemaKey struct {
	tenant, jobType string
	revision        int64
	created         int64 // in Unix microseconds: a database that was restored gives revisions again
	result          bool
}

type entry struct {
	key    schemaKey
	schema *Schema
}

func newCompiled(most int) *compiled {
	return &compiled{most: most, recent: list.New(), byKey: map[schemaKey]*list.Element{}}
}

func (c *compiled) get(key schemaKey) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.byKey[key]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(found)
	return found.Value.(*entry).schema //nolint:forcetypeassert // the list holds nothing else
}

func (c *compiled) put(key schemaKey, schema *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; ok {
		return
	}
	c.byKey[key] = c.recent.PushFront(&entry{key, schema})
	c.bytes += schema.weight
	for c.bytes > c.most && c.recent.Len() > 1 {
		last := c.recent.Remove(c.recent.Back()).(*entry) //nolint:forcetypeassert // the list holds nothing else
		delete(c.byKey, last.key)
		c.bytes -= last.schema.weight
	}
}
