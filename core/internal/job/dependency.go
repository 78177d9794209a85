package job

// OnFailed is what a child does where a parent ends without completing.
type OnFailed string

// The policies.
const (
	// CancelChild cancels the child; its own children see a cancelled parent.
	CancelChild OnFailed = "cancel"
	// RunChild lets the child run all the same.
	RunChild OnFailed = "run"
	// HoldChild keeps the child blocked until the parent was redriven and has completed.
	HoldChild OnFailed = "hold"
)

// Removed stands in place of a state in a follow-up: a dead letter was deleted, so that no redrive
// can come.
const Removed State = "removed"

// Effect is what the end of a parent does to a child that waits for it.
type Effect int

// The effects.
const (
	// Resolve: the child no longer waits for this parent.
	Resolve Effect = iota
	// CancelIt: the child is cancelled.
	CancelIt
	// Keep: the child goes on waiting, for a redrive of the parent.
	Keep
)

// EffectOf decides what the end of a parent does to a child. Only a dead letter can be redriven, so
// a held child whose parent was cancelled or deleted is cancelled: it would wait for ever.
func EffectOf(parent State, policy OnFailed) Effect {
	switch {
	case parent == Completed || policy == RunChild:
		return Resolve
	case parent == DeadLetter && policy == HoldChild:
		return Keep
	default:
		return CancelIt
	}
}
