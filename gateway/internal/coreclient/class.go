package coreclient

import "github.com/forgequeue/forgequeue/shared/api"

// class is the priority of a call. When core cannot take all calls, the lower
// class goes first: a heartbeat that is late lets a lease expire, which adds work
// to a core that is overloaded already.
type class int

const (
	// classLease is calls that renew or end a lease: heartbeats and outcomes.
	classLease class = iota
	// classKey is the look-up of API keys, which any other call may have to wait
	// for. Callers without a valid key cause it too, so it has its own bound.
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

	// classParked is calls that wait in core for an event: they cost it next to
	// nothing, end at any time, and have their own limit.
	classParked = ordered
	// classProbe reads core's readiness; there is one at a time. It must report core's
	// own state, so neither a limit nor a breaker applies to it.
	classProbe = ordered + 1
)

// String is the class's label in metrics.
func (c class) String() string {
	return [...]string{"lease", "key", "claim", "submit", "read", "list", "parked", "probe"}[c]
}

// classOf gives an operation's class; by its effect, if it is not named here.
func classOf(path string, e effect) class {
	switch path {
	case api.HopHeartbeat, api.HopOutcome:
		return classLease
	case api.HopKeyLookup:
		return classKey
	case api.HopClaim, api.HopRegister, api.HopLeave:
		return classClaim
	case api.HopList, api.HopAttempts, api.HopDeadLetters, api.HopWorkflowList, api.HopWorkflowGet, api.HopWorkers, api.HopQueues, api.HopTenantList, api.HopPlanList, api.HopKeyList,
		api.HopScheduleList, api.HopScheduleRuns, api.HopStats, api.HopLimitStats, api.HopTenantStats, api.HopUsage, api.HopTypeList, api.HopTypeVersions, api.HopTypeTexts, api.HopInstallation:
		return classList
	case api.HopReady:
		return classProbe
	}
	if e == reads {
		return classRead
	}
	return classSubmit
}
