package cellclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/memory"
)

// How is how a call is made, beyond what its operation says. The zero value is usual.
type How struct {
	// Parked calls may be delayed by core for as long as their caller asks. They are never repeated once they were
	// sent. They end early when the gateway drains, or when their place goes to another owner: then with ErrCutShort,
	// if core had no result yet. If there is no place for one, it fails with ErrNoPlace.
	Parked bool
	// Shared lets the call share a request to core with other callers' of the same Group: those that come
	// while one is under way are sent together in the next. Core answers an envelope when its last item is done, so
	// calls that may wait for a tenant lock need a group of their own. In the common group, "", core answers
	// RetryUnbatched for an item that would have to wait: it is sent again in its tenant's group, and so are the
	// tenant's next ones for apartFor.
	Shared bool
	Group  string
	// Answer counts the memory of the answer from when it comes until its caller releases it; nil counts none. Where the
	// owner's share is used up, a read and a claim wait before they are sent. An answer that comes all the same
	// waits too if it is a read's, and counts in any case if it is not: it cannot be asked for again.
	Answer *memory.Hold
}

// Submit is how a tenant's jobs are submitted. The call shares requests only with
// its own tenant's submits where core needs the tenant lock: it is keyed, by an
// Idempotency-Key, or capped, its jobs being under a cap. That is an estimate: only core
// knows a queue's settings, and answers RetryUnbatched. Other submits share requests within
// their cell.
func Submit(tenant string, keyed, capped bool) How {
	if keyed || capped {
		return How{Shared: true, Group: tenant}
	}
	return How{Shared: true}
}

// operation is one that is called.
type operation struct {
	hop.Operation
	How
	// whose is the owner of the call: the owners of a class take turns. Call sets it.
	whose string
	// place is a parked call's.
	place *place
}

// of is the operation that is called so.
func (h How) of(o hop.Operation) operation {
	if h.Parked {
		o.Class = hop.ClassParked
	}
	return operation{Operation: o, How: h}
}

// mayRepeat returns whether a call whose reply was lost may be sent again.
func (o operation) mayRepeat() bool { return o.Effect != hop.Writes && o.Class < hop.OrderedClasses }

// settles returns whether the answer to a repeat is also that of the first try.
func (o operation) settles() bool { return o.mayRepeat() && o.Effect != hop.Reads }

// lost is the error of a call that was sent and got no reply.
func (o operation) lost() error {
	if o.Effect == hop.Reads {
		return ErrUnavailable
	}
	return ErrOutcomeUnknown
}

const (
	// smallAnswer is how many bytes of an answer are not counted.
	smallAnswer = 64 << 10
	// answerFactor is the memory that each byte of an answer takes: what core sent, and the item's result in it.
	answerFactor = 2
)

// room waits, before a call, for those answers of its owner that wait for memory. Where other owners have it all, a small
// answer comes all the same.
func (o operation) room(ctx context.Context) error {
	if o.Effect != hop.Reads && o.Path != hop.ClaimJobs.Path {
		return nil
	}
	if err := o.take(ctx, 1); !errors.Is(err, memory.ErrFull) {
		return err
	}
	return nil
}

// count counts an answer of so many bytes that has begun to come.
func (o operation) count(ctx context.Context, bytes int64) error {
	switch {
	case bytes <= smallAnswer:
		return nil
	case o.Effect != hop.Reads:
		o.Answer.Force(bytes * answerFactor)
		return nil
	}
	return o.take(ctx, bytes*answerFactor)
}

func (o operation) take(ctx context.Context, bytes int64) error {
	err := o.Answer.Take(ctx, bytes, patience(ctx))
	if errors.Is(err, memory.ErrShare) || errors.Is(err, memory.ErrFull) {
		return fmt.Errorf("%w: %w", turnedAwayError{reasonMemory}, err)
	}
	return err
}
