package hop

import (
	"encoding/json"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Operation is what gateway and core know of one of core's operations, whatever its request is.
type Operation struct {
	Path   string
	Effect Effect
	Class  Class
	Access Access
	// Directory: the home cell serves it for all principals. Other operations are served by the cell of the principal's tenant,
	// and by the home cell where it has none.
	Directory bool
}

// Effect is what a lost reply means.
type Effect int

const (
	// Writes is a change: a lost reply leaves the outcome unknown. It is the zero value, so
	// that an operation is unsafe to repeat unless it is declared safe.
	Writes Effect = iota
	// Reads changes nothing: a lost reply has cost the answer, nothing else.
	Reads
	// Keyed is a change whose request has an Idempotency-Key: core remembers the answer, so a repeat is safe.
	Keyed
	// Repeatable is a change that a repeat does not make twice: a heartbeat, a worker's goodbye, and an outcome, which
	// core recognizes by its lease token and body.
	Repeatable
)

// Class is the priority of a call. When core cannot take all calls, the lower
// class goes first: a heartbeat that is late lets a lease expire, which adds work
// to a core that is overloaded already.
type Class int

const (
	// ClassLease is calls that renew or end a lease: heartbeats and outcomes.
	ClassLease Class = iota
	// ClassKey is the look-up of API keys, which any other call may have to wait
	// for. Callers without a valid key cause it too, so it has its own bound.
	ClassKey
	// ClassClaim is claims that do not wait, and the registration of workers.
	ClassClaim
	// ClassSubmit is submits, and every other change.
	ClassSubmit
	// ClassRead reads one thing.
	ClassRead
	// ClassList reads many.
	ClassList

	// OrderedClasses is how many classes share the calls in flight.
	OrderedClasses

	// ClassParked is calls that wait in core for an event: they cost it next to
	// nothing, end at any time, and have their own limit.
	ClassParked = OrderedClasses
	// ClassProbe reads core's readiness; there is one at a time. It must report core's
	// own state, so neither a limit nor a breaker applies to it.
	ClassProbe = OrderedClasses + 1
)

// String is the class's label in metrics.
func (c Class) String() string {
	return [...]string{"lease", "key", "claim", "submit", "read", "list", "parked", "probe"}[c]
}

// Access is whose principal an item must have.
type Access string

const (
	// ForTenant is a tenant's principals; one that is bound to a user acts for that user.
	ForTenant Access = "tenant"
	// ForManager is a tenant's principals that are not bound to a user.
	ForManager Access = "manager"
	// ForWorker is workers: a tenant's, not bound to a user, or the platform's.
	ForWorker Access = "worker"
	// ForManagerOrPlatform is as ForManager, and the platform.
	ForManagerOrPlatform Access = "manager or platform"
	// ForReaderOrWorker is a tenant's keys with the scope read, and workers.
	ForReaderOrWorker Access = "reader or worker"
	// ForManagerOrOperator is as ForManager, and the operator.
	ForManagerOrOperator Access = "manager or operator"
	// ForAdminOrOperator is a tenant's principals with the scope admin that are not bound to a user, and the operator.
	ForAdminOrOperator Access = "admin or operator"
	// ForOperator is the operator.
	ForOperator Access = "operator"
	// ForAnybody does not look at the principal.
	ForAnybody Access = "anybody"
)

// Op is an operation with the types of its request and its answer.
type Op[Req, Resp any] struct {
	Operation
	// effect, where not nil, is the effect of a request.
	effect func(Req) Effect
}

// Of is the operation with the effect that this request has.
func (o Op[Req, Resp]) Of(request Req) Operation {
	if o.effect != nil {
		o.Effect = o.effect(request)
	}
	return o.Operation
}

// Raw is the operation for a caller that passes the answer on undecoded.
func Raw[Req, Resp any](o Op[Req, Resp]) Op[Req, json.RawMessage] {
	return Op[Req, json.RawMessage](o)
}

// in is the operation in another class than its effect's.
func (o Op[Req, Resp]) in(class Class) Op[Req, Resp] {
	o.Class = class
	return o
}

// directory is the operation on the directory, which the home cell has.
func (o Op[Req, Resp]) directory() Op[Req, Resp] {
	o.Directory = true
	return o
}

func op[Req, Resp any](name string, effect Effect, class Class, access Access) Op[Req, Resp] {
	return Op[Req, Resp]{Operation: Operation{Path: "/internal/v1/" + name, Effect: effect, Class: class, Access: access}}
}

func read[Req, Resp any](name string, access Access) Op[Req, Resp] {
	return op[Req, Resp](name, Reads, ClassRead, access)
}

func list[Req, Resp any](name string, access Access) Op[Req, Resp] {
	return op[Req, Resp](name, Reads, ClassList, access)
}

func write[Req, Resp any](name string, access Access) Op[Req, Resp] {
	return op[Req, Resp](name, Writes, ClassSubmit, access)
}

func repeatable[Req, Resp any](name string, access Access) Op[Req, Resp] {
	return op[Req, Resp](name, Repeatable, ClassSubmit, access)
}

// keyed is a change whose request may have an Idempotency-Key.
func keyed[Req interface{ key() *Idempotency }, Resp any](name string, access Access) Op[Req, Resp] {
	made := write[Req, Resp](name, access)
	made.effect = func(request Req) Effect {
		if request.key() == nil {
			return Writes
		}
		return Keyed
	}
	return made
}

// unlessDry is a change of dead letters, or what it would change.
func unlessDry(name string, access Access) Op[api.DeadLetterRequest, json.RawMessage] {
	made := write[api.DeadLetterRequest, json.RawMessage](name, access)
	made.effect = func(request api.DeadLetterRequest) Effect {
		if request.DryRun {
			return Reads
		}
		return Writes
	}
	return made
}

// bulk is a change of many jobs, or what it would change.
func bulk(name string, access Access) Op[api.BulkRequest, json.RawMessage] {
	made := write[api.BulkRequest, json.RawMessage](name, access)
	made.effect = func(request api.BulkRequest) Effect {
		if request.DryRun {
			return Reads
		}
		return Writes
	}
	return made
}

func (r SubmitJobsRequest) key() *Idempotency { return r.Idempotency }
func (r RerunJobRequest) key() *Idempotency   { return r.Idempotency }
func (r OnceRequest) key() *Idempotency       { return r.Idempotency }
