package coreclient

import "github.com/forgequeue/forgequeue/shared/api"

// Op is one operation of core: its path, what a lost reply means, and how urgent
// it is.
type Op struct {
	path   string
	effect effect
	class  class
	// shared and group say with whom it may share a request, see Shared.
	shared bool
	group  string
	// whose call it is: the owners of a class take turns. Call says it.
	whose string
	// place is a parked call's.
	place *place
}

type effect int

const (
	// writes: a lost reply leaves the outcome unknown. It is the zero value, so
	// that an operation is unsafe to repeat until somebody says otherwise.
	writes effect = iota
	// reads: a lost reply has cost the answer, nothing else.
	reads
	// keyed: core remembers the answer by an Idempotency-Key, so a repeat is safe.
	keyed
	// repeatable: doing it twice is doing it once, and the repeat is answered like
	// the first.
	repeatable
)

// Write is an operation that changes something.
func Write(path string) Op { return op(path, writes) }

// Read is an operation that changes nothing.
func Read(path string) Op { return op(path, reads) }

// KeyedWrite is a change whose request carries an Idempotency-Key.
func KeyedWrite(path string) Op { return op(path, keyed) }

// Repeatable is a change that the contract lets anybody repeat: a heartbeat, and
// an outcome, which core knows again by its lease token and body.
func Repeatable(path string) Op { return op(path, repeatable) }

// Submit is a submit of a tenant's jobs. It shares its requests with the tenant's alone
// where core settles it under the tenant's lock: where it is keyed, by an
// Idempotency-Key, or its jobs come under a cap, capped. That is a guess: what a queue's
// settings say only core knows, and it answers Alone.
func Submit(tenant string, keyed, capped bool) Op {
	submit := Write(api.HopSubmit)
	if keyed {
		submit = KeyedWrite(api.HopSubmit)
	}
	if keyed || capped {
		return submit.Shared(tenant)
	}
	return submit.Shared("")
}

func op(path string, e effect) Op { return Op{path: path, effect: e, class: classOf(path, e)} }

// Parked is the same operation where core may hold its answer for as long as the
// caller asks. It is never repeated once it was sent. It ends early when the gateway
// drains, or when its place goes to another owner: then with ErrCutShort, where core had
// nothing to say yet. Where there is no place for it at all it fails with ErrNoPlace.
func (o Op) Parked() Op {
	o.class = classParked
	return o
}

// mayRepeat says whether a call whose reply was lost may be sent again.
func (o Op) mayRepeat() bool { return o.effect != writes && o.class < ordered }

// settles says whether a repeat would tell how the first try ended.
func (o Op) settles() bool { return o.mayRepeat() && o.effect != reads }

// lost is what the caller learns when the call was sent and no reply came.
func (o Op) lost() error {
	if o.effect == reads {
		return ErrUnavailable
	}
	return ErrOutcomeUnknown
}
