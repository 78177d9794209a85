package invariants

import (
	"slices"
	"time"
)

// reapPeriod is how often core looks for expired leases.
const reapPeriod = time.Second

// OverdueAfter is how long past its lease a job may still be running.
const OverdueAfter = 2 * reapPeriod

// Overdue is I2: no running job stays past its lease by more than two reap periods.
func Overdue(_ History, db Database) []string {
	v := violations{name: "I2"}
	for _, r := range db.Rows {
		if late := db.Now.Sub(r.LeaseEnds); r.State == "running" && late > OverdueAfter {
			v.add("job %s still runs %v after its lease", r.ID, late.Round(time.Millisecond))
		}
	}
	for _, seen := range db.Overdue {
		v.add("during the run: %s", seen)
	}
	return v.list()
}

// OneLease is I3: one live lease for a job at a time; epochs are 1, 2, 3 … and
// no lease token is given twice.
func OneLease(h History, db Database) []string {
	v := violations{name: "I3"}
	rows := db.byID()
	ends := leaseEnds(h)
	tokens := map[string]string{}
	for job, claims := range h.claims() {
		r, known := rows[job]
		for i, claim := range claims {
			if other, twice := tokens[claim.Token]; twice {
				v.add("the token of job %s was given to %s and to %s", job, other, claim.Actor)
			}
			tokens[claim.Token] = claim.Actor
			if claim.Epoch < 1 || (known && claim.Epoch > r.Epoch) {
				v.add("job %s was claimed with epoch %d, and its row has %d", job, claim.Epoch, r.Epoch)
			}
			if i == 0 {
				continue
			}
			before := claims[i-1]
			if before.Epoch == claim.Epoch {
				v.add("epoch %d of job %s was given to %s and to %s", claim.Epoch, job, before.Actor, claim.Actor)
				continue
			}
			// The grant was before its answer arrived; the lease before must have been over by then.
			if end := ends[before.Token]; claim.Done.Before(end) {
				v.add("job %s was claimed with epoch %d %v before the lease of epoch %d was over", job, claim.Epoch,
					end.Sub(claim.Done).Round(time.Millisecond), before.Epoch)
			}
		}
	}
	epochsOnRecord(&v, rows, db.Attempts)
	return v.list()
}

// epochsOnRecord: an attempt on record has an epoch of its own, within its job's.
func epochsOnRecord(v *violations, rows map[string]Row, attempts []Attempt) {
	type name struct {
		job   string
		epoch int64
	}
	seen := map[name]bool{}
	for _, a := range attempts {
		n := name{a.Job, a.Epoch}
		if seen[n] {
			v.add("epoch %d of job %s is twice among the attempts", a.Epoch, a.Job)
		}
		seen[n] = true
		if r, ok := rows[a.Job]; ok && (a.Epoch < 1 || a.Epoch > r.Epoch || (a.Epoch == r.Epoch && r.State == "completed")) {
			v.add("job %s is %s with epoch %d and has an unsuccessful attempt of epoch %d", a.Job, r.State, r.Epoch, a.Epoch)
		}
	}
}

// leaseEnds tells when each lease was over at the latest: when it ran out, its
// last heartbeat counted, or when an outcome that may have ended it was sent, or a heartbeat that was told that it is
// lost: a move of its tenant gives leases back.
func leaseEnds(h History) map[string]time.Time {
	ends := map[string]time.Time{}
	claims := h.claims()
	for i := range h.Events {
		e := &h.Events[i]
		if (e.Op == OpClaim && e.Job != "") || (e.Op == OpHeartbeat && e.Lease == "ok") {
			if e.LeaseEnds.After(ends[e.Token]) {
				ends[e.Token] = e.LeaseEnds
			}
		}
	}
	for i := range h.Events {
		e := &h.Events[i]
		over := e.Op == OpOutcome && (!e.Refused() || repeatedTooLate(claims[e.Job], e)) || e.Op == OpHeartbeat && e.OK() && e.Lease == "lost"
		if end, ok := ends[e.Token]; ok && over && e.Sent.Before(end) {
			ends[e.Token] = e.Sent
		}
	}
	return ends
}

// repeatedTooLate says that a lease may have been ended by an outcome that was refused: the gateway repeats one whose
// reply from core was lost, and an outcome has its answer only until the job is claimed again.
func repeatedTooLate(claims []*Event, e *Event) bool {
	return e.Code == "lease_lost" && slices.ContainsFunc(claims, func(next *Event) bool {
		return next.Epoch > e.Epoch && next.Sent.Before(e.Done) && e.Sent.Before(next.Done)
	})
}

// Stale is I4: who asks with a lease that another claim has followed is refused
// with 409 (a heartbeat is told "lost"), and changes nothing.
func Stale(h History, _ Database) []string {
	v := violations{name: "I4"}
	claims := h.claims()
	for i := range h.Events {
		e := &h.Events[i]
		if e.Op == OpImage && e.Before != e.After {
			v.add("a stale request changed the row of job %s from %s to %s", e.Job, e.Before, e.After)
		}
		if e.Status == 0 || e.Token == "" || (e.Op != OpOutcome && e.Op != OpHeartbeat) || !followed(claims[e.Job], e) {
			continue
		}
		switch {
		case e.Op == OpHeartbeat && e.OK() && e.Lease != "lost":
			v.add("a heartbeat for epoch %d of job %s, which was claimed again before, was told %s", e.Epoch, e.Job, e.Lease)
		case e.Op == OpOutcome && (e.OK() || (e.Status < 500 && e.Status != 409)):
			v.add("%s of epoch %d of job %s, which was claimed again before, was answered %d %s", e.Kind, e.Epoch, e.Job, e.Status, e.Code)
		}
	}
	return v.list()
}

// followed says that a later claim's answer had arrived before e was sent.
func followed(claims []*Event, e *Event) bool {
	for _, claim := range claims {
		if claim.Epoch > e.Epoch && claim.Done.Before(e.Sent) {
			return true
		}
	}
	return false
}
