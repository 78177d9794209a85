package coreclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
)

const (
	// mostAwaited is how long a cell is waited for where others have answered: then it is late.
	mostAwaited = 2 * time.Second
	// lateAwaited is how long one that is late already is waited for.
	lateAwaited = 100 * time.Millisecond
)

// errLate means that a cell was sent a call and not waited for any longer.
var errLate = errors.New("it has not answered in time")

// answerOf is what one cell answered.
type answerOf[T any] struct {
	cell  *oneCell
	value T
	err   error
}

// patience is how long a cell is waited for: a frozen one must not hold up what the others have answered.
func (c *oneCell) patience() time.Duration {
	if c.late.Load() {
		return lateAwaited
	}
	return mostAwaited
}

// within asks one cell, and waits for it no longer than its patience. The call itself continues: its end says whether the
// cell is late still. unwanted, where not nil, gets what was answered too late.
func within[T any](ctx context.Context, cell *oneCell, ask func(context.Context, *oneCell) (T, error), unwanted func(answerOf[T])) answerOf[T] {
	answered, left := make(chan answerOf[T]), make(chan struct{})
	defer close(left)
	go func() {
		bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), cellclient.DeadlineOf(ctx))
		defer cancel()
		value, err := ask(bounded, cell)
		if err == nil {
			cell.late.Store(false)
		}
		answer := answerOf[T]{cell, value, err}
		select {
		case answered <- answer:
		case <-left:
			if unwanted != nil {
				unwanted(answer)
			}
		}
	}()
	timer := time.NewTimer(cell.patience())
	defer timer.Stop()
	var err error
	select {
	case answer := <-answered:
		return answer
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		cell.late.Store(true)
	}
	return answerOf[T]{cell: cell, err: fmt.Errorf("%w: cell %s: %w", cellclient.ErrUnavailable, cell.Name(), cmp.Or(err, errLate))}
}

// inCells asks some cells at once, each within its patience. of leaves cells out; nil leaves out none.
func inCells[T any](ctx context.Context, cells []*oneCell, of func(*oneCell) bool, ask func(context.Context, *oneCell) (T, error)) []answerOf[T] {
	var asked []*oneCell
	for _, cell := range cells {
		if of == nil || of(cell) {
			asked = append(asked, cell)
		}
	}
	answers := make([]answerOf[T], len(asked))
	var group sync.WaitGroup
	for i, cell := range asked {
		group.Go(func() { answers[i] = within(ctx, cell, ask, nil) })
	}
	group.Wait()
	return answers
}

// turns says which cell is asked first: each in turn. It is safe for concurrent use.
type turns struct {
	mu   sync.Mutex
	next int
}

// order gives the cells, the one whose turn it is first.
func (t *turns) order(cells []*oneCell) []*oneCell {
	t.mu.Lock()
	first := t.next % len(cells)
	t.next = first + 1
	t.mu.Unlock()
	return append(append(make([]*oneCell, 0, len(cells)), cells[first:]...), cells[:first]...)
}
