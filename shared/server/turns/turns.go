// Package turns lets one caller of each owner at a time do what may take long, so that an owner, such as a
// tenant, occupies at most one processor of a process with it.
package turns

import (
	"context"
	"errors"
	"sync"
)

// ErrFull means that as many callers of the owner wait as may.
var ErrFull = errors.New("turns: too many callers of one owner wait")

// Turns has a lock for each owner. It is safe for concurrent use; make it with New.
type Turns struct {
	// most is how many callers of one owner may wait.
	most int

	mu    sync.Mutex
	lines map[string]*line
}

// line is an owner's lock. It exists while somebody has its turn, or waits for it.
type line struct {
	turn chan struct{} // holds one value while somebody has the turn
	// callers have the turn, or wait for it.
	callers int
}

// New makes Turns: most callers of one owner wait at a time, more are refused at once.
func New(most int) *Turns { return &Turns{most: most, lines: map[string]*line{}} }

// Take waits for the owner's turn, until ctx ends. release, which must be called once, passes it on. Callers
// of other owners do not wait for each other. The error is ErrFull or the context's.
func (t *Turns) Take(ctx context.Context, owner string) (release func(), err error) {
	t.mu.Lock()
	mine := t.lines[owner]
	if mine == nil {
		mine = &line{turn: make(chan struct{}, 1)}
		t.lines[owner] = mine
	}
	if mine.callers > t.most {
		t.mu.Unlock()
		return nil, ErrFull
	}
	mine.callers++
	t.mu.Unlock()
	select {
	case mine.turn <- struct{}{}:
	default:
		select {
		case mine.turn <- struct{}{}:
		case <-ctx.Done():
			t.leave(owner, mine)
			return nil, ctx.Err()
		}
	}
	return func() {
		<-mine.turn
		t.leave(owner, mine)
	}, nil
}

// Waiting is how many callers have the owner's turn or wait for it.
func (t *Turns) Waiting(owner string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine := t.lines[owner]; mine != nil {
		return mine.callers
	}
	return 0
}

func (t *Turns) leave(owner string, mine *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.callers--; mine.callers == 0 {
		delete(t.lines, owner)
	}
}
