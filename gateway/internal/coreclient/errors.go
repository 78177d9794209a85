package coreclient

import "errors"

var (
	// ErrUnavailable means that core did not take the call, or that a read got no
	// answer: nothing has changed, and the caller may try again.
	ErrUnavailable = errors.New("coreclient: core cannot be reached")
	// ErrOutcomeUnknown means that a change was sent and no answer came: it may
	// have taken effect, or may still.
	ErrOutcomeUnknown = errors.New("coreclient: no answer from core to a call that was sent")
	// ErrRefusesUs means that core does not accept the gateway's signature. To the
	// caller it is the same as ErrUnavailable.
	ErrRefusesUs = errors.New("core refuses our signature: do both have the same FORGEQUEUE_HOP_SECRET?")
	// ErrContract means that core answered in a way that the two have not agreed
	// on: one of them is older, or something else listens there.
	ErrContract = errors.New("coreclient: core's answer makes no sense")
)
