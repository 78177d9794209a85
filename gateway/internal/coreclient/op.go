package coreclient

import (
	"github.com/forgequeue/forgequeue/shared/hop"
)

// Op is one operation of core: its path, what a lost reply means, and how urgent
// it is.
type Op struct {
	path   string
	effect effect
	class  class
	// shared, group and cell say with whom it may share a request, see Shared and Submit.
	shared bool
	group  string
	cell   string
	// whose is the owner of the call: the owners of a class take turns. Call sets it.
	whose string
	// place is a parked call's.
	place *place
}

type effect int

const (
	// writes: a lost reply leaves the outcome unknown. It is the zero value, so
	// that an operation is unsafe to repeat unless it is declared safe.
	writes effect = iota
	// reads: a lost reply has cost the answer, nothing else.
	reads
	// keyed: core remembers the answer by an Idempotency-Key, so a repeat is safe.
	keyed
	// repeatable: the operation is idempotent, and a repeat gets the first answer.
	repeatable
)

// Write is an operation that changes something.
func Write(path string) Op { return op(path, writes) }

// Read is an operation that changes nothing.
func Read(path string) Op { return op(path, reads) }

// KeyedWrite is a change whose request carries an Idempotency-Key.
func KeyedWrite(path string) Op { return op(path, keyed) }

// Repeatable is a change that the contract allows to repeat: a heartbeat, a
// worker's goodbye, and an outcome, which core recognises by its lease token and body.
func Repeatable(path string) Op { return op(path, repeatable) }

// Submit is a submit of a tenant's jobs, which lie in cell. It shares requests only with
// its own tenant's submits where core needs the tenant lock: it is keyed, by an
// Idempotency-Key, or capped, its jobs being under a cap. That is an estimate: only core
// knows a queue's settings, and answers RetryUnbatched. Other submits share requests within their
// cell: core answers a request when its last item is done, and a cell that does not answer
// would delay the others' items.
func Submit(tenant, cell string, keyed, capped bool) Op {
	submit := Write(hop.SubmitJobs)
	if keyed {
		submit = KeyedWrite(hop.SubmitJobs)
	}
	if keyed || capped {
		return submit.Shared(tenant)
	}
	submit.cell = cell
	return submit.Shared("")
}

func op(path string, e effect) Op { return Op{path: path, effect: e, class: classOf(path, e)} }

// Parked is the same operation where core may delay its answer for as long as the
// caller asks. It is never repeated once it was sent. It ends early when the gateway
// drains, or when its place goes to another owner: then with ErrCutShort, if core had
// no result yet. If there is no place for it, it fails with ErrNoPlace.
func (o Op) Parked() Op {
	o.class = classParked
	return o
}

// mayRepeat returns whether a call whose reply was lost may be sent again.
func (o Op) mayRepeat() bool { return o.effect != writes && o.class < ordered }

// settles returns whether the answer to a repeat is also that of the first try.
func (o Op) settles() bool { return o.mayRepeat() && o.effect != reads }

// lost is the error of a call that was sent and got no reply.
func (o Op) lost() error {
	if o.effect == reads {
		return ErrUnavailable
	}
	return ErrOutcomeUnknown
}
