package dispatch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// A caller that leaves because its cell does not answer does not know what became of a flush under way: it is not
// told that nothing was changed.
func TestASubmitThatLeavesAFlushHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	unlock := f.lockJobs()
	ctx, leave := context.WithCancelCause(t.Context())
	answered := make(chan dispatch.SubmitAnswer, 1)
	go func() { answered <- f.d.Submit(ctx, []dispatch.SubmitCall{f.call(plain())})[0] }()
	f.blocked(1)
	leave(store.ErrUnavailable) // as the gate of a cell does
	answer := <-answered
	if !errors.Is(answer.Err, store.ErrOutcomeUnknown) || errors.Is(answer.Err, store.ErrUnavailable) {
		t.Errorf("the answer is %v", answer.Err)
	}
	unlock()
}
