package coreclient

import "github.com/forgequeue/forgequeue/shared/api"

// class is how urgent a call is. When core cannot take everything, the earlier
// class goes first: a heartbeat that comes too late makes an expired lease, and
// that makes more work for a core that had too much already.
type class int

const (
	// classLease is what keeps or ends a lease: heartbeats and outcomes.
	classLease class = iota
	// classKey is the look-up of API keys, which every other call waits for once in
	// a while. Callers without a good key cause it too, so that it has a bound of
	// its own.
	classKey
	// classClaim is claims that do not wait, and the registration of workers.
	classClaim
	// classSubmit is submits, and every other change.
	classSubmit
	// classRead reads one thing.
	classRead
	// classList reads many.
	classList

	// ordered is how many classes share the calls in flight.
	ordered

	// classParked is calls that wait in core for something to happen: they cost it
	// next to nothing, end when they will, and have a limit of their own.
	classParked = ordered
	// classProbe asks how core does; there is one at a time, and it must see core as
	// it is: neither limit nor breaker stands in its way.
	classProbe = ordered + 1
)

// String is the class as metrics call it.
func (c class) String() string {
	return [...]string{"lease", "key", "claim", "submit", "read", "list", "parked", "probe"}[c]
}

// classOf gives an operation's class. What is not named here goes by its effect.
func classOf(path string, e effect) class {
	switch path {
	case api.HopHeartbeat, api.HopOutcome:
		return classLease
	case api.HopKeyLookup:
		return classKey
	case api.HopClaim, api.HopRegister:
		return classClaim
	case api.HopList, api.HopAttempts, api.HopDeadLetters, api.HopWorkers, api.HopQueues, api.HopTenantList, api.HopKeyList:
		return classList
	case api.HopReady:
		return classProbe
	}
	if e == reads {
		return classRead
	}
	return classSubmit
}
