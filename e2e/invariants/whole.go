package invariants

// Isolation is I10: no answer to a tenant holds a mark of another.
func Isolation(h History, _ Database) []string {
	v := violations{name: "I10"}
	for i := range h.Events {
		e := &h.Events[i]
		for _, mark := range e.Foreign {
			v.add("%s, request %d of %s, was answered with the mark %s", e.Tenant, e.Seq, e.Actor, mark)
		}
		if e.Op == OpClaim && e.Mark != "" && e.Tenant != "" && len(e.Foreign) == 0 && !ownMark(e) {
			v.add("%s claimed job %s with the mark %s", e.Tenant, e.Job, e.Mark)
		}
	}
	return v.list()
}

func ownMark(e *Event) bool {
	match := marks.FindStringSubmatch(e.Mark)
	return match != nil && match[1] == e.Tenant
}

// Caps is I9: active ≤ cap and running ≤ cap at every look, and what was counted is
// what is there once quiet.
func Caps(_ History, db Database) []string {
	v := violations{name: "I9"}
	for _, look := range db.OverCap {
		v.add("over a cap: %s", look)
	}
	for _, drift := range db.Drift {
		v.add("drift: %s", drift)
	}
	return v.list()
}

// Sums is I13: accepted = completed + dead + cancelled + open + discarded, for each
// tenant. Submits without an answer may add to the right side. The services' own
// sums, where given, agree with the tables.
func Sums(h History, db Database) []string {
	v := violations{name: "I13"}
	accepted, doubtful := map[string]map[string]bool{}, map[string]map[string]bool{}
	note := func(where map[string]map[string]bool, tenant, what string) {
		if where[tenant] == nil {
			where[tenant] = map[string]bool{}
		}
		where[tenant][what] = true
	}
	answered := map[string]bool{}
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == OpSubmit && e.OK() && e.Job != "" {
			note(accepted, e.Tenant, e.Job)
			answered[e.Mark] = true
		}
	}
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == OpSubmit && !e.OK() && !e.Refused() && !answered[e.Mark] {
			note(doubtful, e.Tenant, e.Mark)
		}
	}
	stored := map[string]int{}
	for _, r := range db.Rows {
		stored[r.Tenant]++
	}
	for tenant := range accepted {
		stored[tenant] += 0
	}
	for tenant, n := range stored {
		n += db.Discarded[tenant]
		least, most := len(accepted[tenant]), len(accepted[tenant])+len(doubtful[tenant])
		if n < least || n > most {
			v.add("tenant %s: %d jobs were accepted and %d got no answer; %d are on record", tenant, least, most-least, n)
		}
	}
	counters(&v, db)
	return v.list()
}

func counters(v *violations, db Database) {
	if db.Counters == nil {
		return
	}
	states := db.Count()
	for name, want := range map[string]int{
		"submitted": len(db.Rows), "completed": states["completed"], "dead_lettered": states["dead_letter"],
	} {
		if got, ok := db.Counters[name]; ok && int(got) != want {
			v.add("the metrics have counted %v jobs as %s; %d are on record", got, name, want)
		}
	}
}

// Quiet is I14: once quiet, goroutines and files are at their baseline, no session
// is idle in a transaction and every Redis key has an end.
func Quiet(_ History, db Database) []string {
	v := violations{name: "I14"}
	for _, r := range db.Resources {
		if r.After > r.Before+r.Slack {
			v.add("%s: %v before the load, %v after it", r.Name, r.Before, r.After)
		}
	}
	if db.IdleInTransaction > 0 {
		v.add("%d sessions are idle in a transaction", db.IdleInTransaction)
	}
	for _, key := range db.RedisWithoutTTL {
		v.add("the Redis key %q never ends", key)
	}
	return v.list()
}
