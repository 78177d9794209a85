package cellclient

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable means that core did not take the call, or that a read got no
	// answer: nothing has changed, and the caller may try again.
	ErrUnavailable = errors.New("cellclient: core cannot be reached")
	// ErrOutcomeUnknown means that a change was sent and no answer came: it may
	// have taken effect, or may still.
	ErrOutcomeUnknown = errors.New("cellclient: no answer from core to a call that was sent")
	// ErrOverloaded means that the gateway has as many calls under way as it may,
	// and has not sent this one.
	ErrOverloaded = errors.New("cellclient: too many calls to core are under way")
	// ErrCutShort means that a parked call was ended early, without a result, because the
	// gateway stops or because another owner had fewer places.
	ErrCutShort = errors.New("cellclient: a parked call was cut short")
	// ErrNoPlace means that a parked call was not sent, because all places are taken and
	// its owner has its share of them. The same call without a wait may be made.
	ErrNoPlace = errors.New("cellclient: there is no place to park a call")
	// ErrRefusesUs means that core does not accept the gateway's signature. To the
	// caller it is the same as ErrUnavailable.
	ErrRefusesUs = errors.New("core refuses our signature: do both have the same FORGEQUEUE_HOP_SECRET?")
	// ErrContract means that core's answer breaks the contract of the hop: one side
	// is older, or another program listens there.
	ErrContract = errors.New("cellclient: core's answer makes no sense")

	// errOpen is a try that an open breaker refused.
	errOpen = errors.New("the breaker is open")
)

// turnedAwayError is a call that was not sent, with its reason label in metrics.
type turnedAwayError struct{ reason string }

func (t turnedAwayError) Error() string { return fmt.Sprintf("%v: %s", ErrOverloaded, t.reason) }
func (t turnedAwayError) Unwrap() error { return ErrOverloaded }
