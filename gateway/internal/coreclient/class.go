package coreclient

import (
	"github.com/forgequeue/forgequeue/shared/hop"
)

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
	case hop.Heartbeat, hop.ReportOutcomes:
		return classLease
	case hop.LookUpKey:
		return classKey
	case hop.ClaimJobs, hop.RegisterWorker, hop.Leave:
		return classClaim
	case hop.ListJobs, hop.ListAttempts, hop.ListDeadLetters, hop.ListWorkflows, hop.GetWorkflow, hop.ListWorkers, hop.ListQueues, hop.ListTenants, hop.ListPlans, hop.ListKeys,
		hop.ListSchedules, hop.ListScheduleRuns, hop.GetStats, hop.GetLimitStats, hop.GetTenantStats, hop.GetUsage, hop.ListTypes, hop.ListTypeVersions, hop.GetTypeDocuments, hop.GetInstallation:
		return classList
	case hop.GetReadiness:
		return classProbe
	}
	if e == reads {
		return classRead
	}
	return classSubmit
}
