package coreclient

// Op is one operation of core: its path, and what a lost reply means.
type Op struct {
	path   string
	effect effect
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
)

// Write is an operation that changes something.
func Write(path string) Op { return Op{path: path, effect: writes} }

// Read is an operation that changes nothing.
func Read(path string) Op { return Op{path: path, effect: reads} }

// KeyedWrite is a change whose request carries an Idempotency-Key.
func KeyedWrite(path string) Op { return Op{path: path, effect: keyed} }

// lost is what the caller learns when the call was sent and no reply came.
func (o Op) lost() error {
	if o.effect == reads {
		return ErrUnavailable
	}
	return ErrOutcomeUnknown
}
