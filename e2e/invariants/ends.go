package invariants

// Attempts is I5: no more attempts are spent than allowed; what is given back is
// not spent; a job without attempts left is a dead letter.
func Attempts(h History, db Database) []string {
	v := violations{name: "I5"}
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == OpClaim && e.Job != "" && (e.Attempt < 1 || e.Attempt > e.MaxAttempts) {
			v.add("job %s was claimed as attempt %d of %d", e.Job, e.Attempt, e.MaxAttempts)
		}
	}
	failed := map[string]int{}
	for _, a := range db.Attempts {
		failed[a.Job]++
	}
	for _, r := range db.Rows {
		if r.Attempt > r.MaxAttempts {
			v.add("job %s has spent %d attempts of %d", r.ID, r.Attempt, r.MaxAttempts)
		}
		if (r.State == "queued" || r.State == "scheduled") && r.Attempt >= r.MaxAttempts {
			v.add("job %s is %s with no attempt left of %d", r.ID, r.State, r.MaxAttempts)
		}
		exhausted := r.Reason == "exhausted" || r.Reason == "worker_lost"
		if exhausted && r.Attempt != r.MaxAttempts {
			v.add("job %s is dead as %s after %d attempts of %d", r.ID, r.Reason, r.Attempt, r.MaxAttempts)
		}
		// Every attempt that was spent is on record, or under way, or the one that did it.
		spent := failed[r.ID]
		if r.State == "completed" || r.State == "running" {
			spent++
		}
		if r.Redrives == 0 && r.State != "cancelled" && r.Attempt != spent {
			v.add("job %s is %s with attempt %d, and %d executions are on record", r.ID, r.State, r.Attempt, spent)
		}
	}
	return v.list()
}

// after lists the states that an outcome may lead to.
var after = map[string][]string{
	"complete": {"completed"},
	"fail":     {"scheduled", "queued", "dead_letter", "cancelled"},
	"snooze":   {"scheduled", "queued", "cancelled"},
	"release":  {"queued", "cancelled"},
	"wait":     {"waiting", "queued", "cancelled"},
}

// Ends is I6: a job ends once in each life, by a transition of the table, by
// somebody's doing, and nothing overwrites the end.
func Ends(h History, db Database) []string {
	v := violations{name: "I6"}
	rows := db.byID()
	claims, outcomes := h.claims(), h.outcomes()
	for job, sent := range outcomes {
		r, known := rows[job]
		if !known {
			continue // I1 says so
		}
		end := acceptedEnd(&v, sent, r.Redrives)
		if end == nil || r.Redrives > 0 {
			continue
		}
		if r.State != end.State || r.Epoch != end.Epoch {
			v.add("job %s was %s by its holder with epoch %d, and is %s with epoch %d", job, end.State, end.Epoch, r.State, r.Epoch)
		}
		for _, claim := range claims[job] {
			if claim.Sent.After(end.Done) {
				v.add("job %s was claimed with epoch %d after it was %s", job, claim.Epoch, end.State)
			}
		}
	}
	for _, r := range db.Rows {
		if !legalPlace(r) {
			v.add("job %s is %s in %s", r.ID, r.State, r.Table)
		}
		if r.State == "completed" && !somebodyCompleted(outcomes[r.ID], r.Epoch) {
			v.add("job %s is completed with epoch %d, and nobody said so", r.ID, r.Epoch)
		}
	}
	return v.list()
}

// acceptedEnd gives the accepted outcome that ended the job, if there is one, and
// complains of illegal transitions and of a second end: a death may be followed by
// another end for each time that the job was redriven.
func acceptedEnd(v *violations, sent []*Event, redrives int) *Event {
	var end *Event
	for _, e := range sent {
		if !e.OK() {
			continue
		}
		legal := false
		for _, state := range after[e.Kind] {
			legal = legal || state == e.State
		}
		if !legal {
			v.add("%s of job %s made it %q", e.Kind, e.Job, e.State)
		}
		if e.State != "completed" && e.State != "dead_letter" && e.State != "cancelled" {
			continue
		}
		again := end != nil && end.Token != e.Token
		if again && end.State == "dead_letter" && end.Epoch < e.Epoch && redrives > 0 {
			redrives--
			again = false
		}
		if again {
			v.add("job %s ended twice: %s with epoch %d and %s with epoch %d", e.Job, end.State, end.Epoch, e.State, e.Epoch)
		}
		end = e
	}
	return end
}

func legalPlace(r Row) bool {
	switch r.Table {
	case "finished_jobs":
		return r.State == "completed" || r.State == "cancelled"
	case "dead_letters":
		return r.State == "dead_letter"
	}
	return r.State == "blocked" || r.State == "scheduled" || r.State == "queued" || r.State == "running"
}

func somebodyCompleted(sent []*Event, epoch int64) bool {
	for _, e := range sent {
		if e.Kind == "complete" && e.Epoch == epoch && !e.Refused() {
			return true
		}
	}
	return false
}
