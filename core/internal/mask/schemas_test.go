package mask

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
)

// Who waits for the schemas that another caller loads asks itself where that one fails.
func TestAFailureIsOfItsCallerAlone(t *testing.T) {
	t.Parallel()
	s := &schemas{known: map[schemaKey]*entry{}}
	key := schemaKey{tenant: uuid.Must(uuid.NewV7()), jobType: "t", revision: 1}
	one, first := s.enter(key)
	if _, again := s.enter(key); !first || again {
		t.Fatal("two load the same")
	}
	waited := make(chan error)
	loaded := &versions{weight: 1}
	go func() {
		found, err := s.get(t.Context(), nil, nil, key)
		if found != loaded {
			err = errors.Join(err, errors.New("other versions"))
		}
		waited <- err
	}()
	one.err = context.Canceled
	next := &entry{ready: make(chan struct{})}
	s.mu.Lock() // another one comes first before the waiting one does
	s.known[key] = next
	s.mu.Unlock()
	close(one.ready)
	next.of = loaded
	s.keep(key, next)
	close(next.ready)
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
