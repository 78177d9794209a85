package invariants

// Submitted is I1: every accepted submit is exactly one job of the same tenant
// with the same payload, and nothing exists that nobody submitted.
func Submitted(h History, db Database) []string {
	v := violations{name: "I1"}
	rows := map[string]Row{}
	for _, r := range db.Rows {
		if other, twice := rows[r.ID]; twice {
			v.add("job %s stands in %s and in %s", r.ID, other.Table, r.Table)
		}
		rows[r.ID] = r
	}
	tries := map[string]*tried{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Op != OpSubmit {
			continue
		}
		noteTry(tries, e)
		if !e.OK() {
			continue
		}
		r, found := rows[e.Job]
		switch {
		case !found && db.Discarded[e.Tenant] == 0:
			v.add("job %s was accepted with %d and is lost", e.Job, e.Status)
		case !found:
		case r.Tenant != e.Tenant:
			v.add("job %s was submitted by tenant %s and belongs to %s", e.Job, e.Tenant, r.Tenant)
		case r.Payload != e.Payload:
			v.add("job %s has another payload than was submitted", e.Job)
		}
	}
	made := map[string]int{}
	for _, r := range db.Rows {
		t := tries[r.Tenant+" "+r.Mark]
		if t == nil {
			v.add("job %s of tenant %s with the mark %q exists, and nobody submitted it", r.ID, r.Tenant, r.Mark)
			continue
		}
		made[r.Mark]++
		if made[r.Mark] == t.possible()+1 {
			v.add("the mark %s was submitted %d times at most and is in more jobs, such as %s", r.Mark, t.possible(), r.ID)
		}
		if t.doubtful == 0 {
			v.add("job %s exists, and every try to submit it was refused", r.ID)
		}
	}
	return v.list()
}

// tried is how a mark was submitted.
type tried struct {
	keys    map[string]bool
	keyless int
	// doubtful tries were accepted, or got no clear refusal.
	doubtful int
}

// possible is how many jobs the tries can have made.
func (t *tried) possible() int { return len(t.keys) + t.keyless }

func noteTry(tries map[string]*tried, e *Event) {
	name := e.Tenant + " " + e.Mark
	t := tries[name]
	if t == nil {
		t = &tried{keys: map[string]bool{}}
		tries[name] = t
	}
	if !e.Refused() {
		t.doubtful++
	}
	switch {
	case e.Key != "":
		t.keys[e.Key] = true
	case !e.Refused():
		t.keyless++
	}
}

// Repeats is I7: one tenant's key and body have one answer, another body is
// refused, and a repeated finish is answered like the first. What an earlier try
// stored, no earlier try was refused for (clients and database share a clock here).
func Repeats(h History, _ Database) []string {
	v := violations{name: "I7"}
	type use struct{ tenant, key string }
	type item struct {
		use
		index int
	}
	ids, bodies := map[item]string{}, map[use]string{}
	doubted := map[use]bool{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Op != OpSubmit || e.Key == "" {
			continue
		}
		u := use{e.Tenant, e.Key}
		if e.OK() && !e.Created.IsZero() && e.Created.Before(e.Sent) && !doubted[u] {
			v.add("the key %s stored job %s before it was sent for the last time, and every try before was refused", e.Key, e.Job)
		}
		doubted[u] = doubted[u] || !e.Refused()
		if !e.OK() {
			continue
		}
		if first, ok := bodies[u]; ok && first != e.Body {
			v.add("the key %s was accepted with two bodies, for job %s", e.Key, e.Job)
			continue
		}
		bodies[u] = e.Body
		if first, ok := ids[item{u, e.Index}]; ok && first != e.Job {
			v.add("the key %s was answered with job %s and with job %s", e.Key, first, e.Job)
		}
		ids[item{u, e.Index}] = e.Job
	}
	for _, outcomes := range h.outcomes() {
		repeatedEnds(&v, outcomes)
	}
	return v.list()
}

// repeatedEnds looks at outcomes of one job: once one was accepted, its repeat
// has the same answer. A lease lost in between is right only where the job was
// not completed: it may have been claimed again.
func repeatedEnds(v *violations, outcomes []*Event) {
	type ending struct{ token, kind, body string }
	accepted := map[ending]*Event{}
	for _, e := range outcomes {
		name := ending{e.Token, e.Kind, e.Body}
		first := accepted[name]
		switch {
		case e.OK() && first == nil:
			accepted[name] = e
		case first == nil:
		case e.OK() && e.Answer != first.Answer:
			v.add("%s of job %s was answered %s, and its repeat %s", e.Kind, e.Job, first.Answer, e.Answer)
		case e.Refused() && e.Status < 500 && first.State == "completed" && e.Sent.After(first.Done):
			v.add("%s of job %s was accepted, and its repeat refused with %d %s", e.Kind, e.Job, e.Status, e.Code)
		}
	}
}
