package submits_test

import (
	"context"
	"errors"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
)

// A caller that leaves because its cell does not answer does not know what became of a flush under way: it is not
// told that nothing was changed.
func TestASubmitThatLeavesAFlushHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.Plain())
	unlock := f.LockJobs()
	ctx, leave := context.WithCancelCause(t.Context())
	answered := make(chan submits.Answer, 1)
	go func() { answered <- f.D.Submit(ctx, []submits.Call{f.Call(enginetest.Plain())})[0] }()
	f.Blocked(1)
	leave(store.ErrUnavailable) // as the gate of a cell does
	answer := <-answered
	if !errors.Is(answer.Err, store.ErrOutcomeUnknown) || errors.Is(answer.Err, store.ErrUnavailable) {
		t.Errorf("the answer is %v", answer.Err)
	}
	unlock()
}
