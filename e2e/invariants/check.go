package invariants

import "fmt"

// violations collects what a predicate found: at most shown of them as text, and
// how many more there are.
type violations struct {
	name string
	text []string
	more int
}

const shown = 10

func (v *violations) add(format string, args ...any) {
	if len(v.text) >= shown {
		v.more++
		return
	}
	v.text = append(v.text, v.name+": "+fmt.Sprintf(format, args...))
}

func (v *violations) list() []string {
	if v.more > 0 {
		return append(v.text, fmt.Sprintf("%s: and %d more", v.name, v.more))
	}
	return v.text
}

// Predicate is one invariant.
type Predicate struct {
	Name  string
	Check func(History, Database) []string
}

// Predicates lists the invariants that are checked, as RELIABILITY names them.
func Predicates() []Predicate {
	return []Predicate{
		{"I1", Submitted},
		{"I2", Overdue},
		{"I3", OneLease},
		{"I4", Stale},
		{"I5", Attempts},
		{"I6", Ends},
		{"I7", Repeats},
		{"I8", Limited},
		{"I9", Caps},
		{"I10", Isolation},
		{"I11", Dependencies},
		{"I12", Fair},
		{"I13", Sums},
		{"I14", Quiet},
		{"linearizable", Linear},
	}
}

// Check gives every violation of every invariant; none is good.
func Check(h History, db Database) []string {
	var all []string
	for _, p := range Predicates() {
		all = append(all, p.Check(h, db)...)
	}
	return all
}
