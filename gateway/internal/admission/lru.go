package admission

import "container/list"

// lru remembers at most size values; the least recently used leaves first. Its
// owner holds a lock around it.
type lru[K comparable, V any] struct {
	size    int
	entries map[K]*list.Element
	recent  *list.List // of *lruEntry, latest use in front
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](size int) *lru[K, V] {
	return &lru[K, V]{size: max(1, size), entries: map[K]*list.Element{}, recent: list.New()}
}

func (l *lru[K, V]) get(key K) (value V, ok bool) {
	element, ok := l.entries[key]
	if !ok {
		return value, false
	}
	l.recent.MoveToFront(element)
	return entryOf[K, V](element).value, true
}

func (l *lru[K, V]) put(key K, value V) {
	if element, ok := l.entries[key]; ok {
		entryOf[K, V](element).value = value
		l.recent.MoveToFront(element)
		return
	}
	if l.recent.Len() < l.size {
		l.entries[key] = l.recent.PushFront(&lruEntry[K, V]{key, value})
		return
	}
	// The oldest entry's memory serves the new one: a flood of keys makes no garbage.
	oldest := l.recent.Back()
	entry := entryOf[K, V](oldest)
	delete(l.entries, entry.key)
	entry.key, entry.value = key, value
	l.entries[key] = oldest
	l.recent.MoveToFront(oldest)
}

func (l *lru[K, V]) len() int { return l.recent.Len() }

func entryOf[K comparable, V any](element *list.Element) *lruEntry[K, V] {
	return element.Value.(*lruEntry[K, V]) //nolint:forcetypeassert // the list holds nothing else
}
