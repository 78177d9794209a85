package invariants

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A job's model: it waits, runs under a lease, and ends. What nobody asked for happens too: a lease expires, a claim
// whose answer was lost gives one, a deadline passes.

type jobState struct {
	at    place
	epoch int64
	// cancel: it was asked to stop.
	cancel bool
	// ended are the accepted outcomes, as epoch:kind with a space after each. Their repeats are answered alike.
	ended string
}

type place string

const (
	waiting   place = "waiting"
	running   place = "running"
	completed place = "completed"
	dead      place = "dead"
	cancelled place = "cancelled"
)

// placeOf is the model's place of a state of the API.
func placeOf(state string) place {
	switch state {
	case "blocked", "scheduled", "queued":
		return waiting
	case "dead_letter":
		return dead
	}
	return place(state)
}

// jobFacts bound what can have happened to a job without a request on record.
type jobFacts struct {
	// granted are the epochs that clients got, most the highest there was.
	granted map[int64]bool
	most    int64
	// died: it was a dead letter at some time. redriven: it was queued again.
	died, redriven bool
}

func factsOf(h History, db Database) map[string]*jobFacts {
	all := map[string]*jobFacts{}
	of := func(job string) *jobFacts {
		if all[job] == nil {
			all[job] = &jobFacts{granted: map[int64]bool{}}
		}
		return all[job]
	}
	for i := range h.Events {
		if e := &h.Events[i]; ofJob(e) {
			f := of(e.Job)
			f.most = max(f.most, e.Epoch)
			f.died = f.died || e.State == "dead_letter"
			if e.Op == OpClaim {
				f.granted[e.Epoch] = true
			}
		}
	}
	for i := range db.Rows {
		r := &db.Rows[i]
		f := of(r.ID)
		f.most = max(f.most, r.Epoch)
		f.redriven = r.Redrives > 0
		f.died = f.died || f.redriven || r.State == "dead_letter"
	}
	return all
}

// ofJob says that an event tells something of its job's state.
func ofJob(e *Event) bool {
	if e.Job == "" {
		return false
	}
	switch e.Op {
	case OpClaim:
		return e.OK()
	case OpHeartbeat:
		return e.OK() && e.Lease != ""
	case OpRead:
		return e.Status == 200 && e.State != "" //nolint:mnd // a 304 says nothing
	case OpOutcome:
		return e.OK() && e.State != "" || e.Code == "lease_lost" || !e.Refused()
	case OpCancel:
		return e.OK() || e.Code == "job_terminal" || !e.Refused()
	}
	return false
}

func jobModel() *porcupine.NondeterministicModel {
	return &porcupine.NondeterministicModel{
		Init: func() []any { return []any{jobState{at: waiting}} },
		Step: func(state, input, _ any) []any {
			e := input.(request)
			var next []any
			for _, s := range e.facts.unseen(state.(jobState)) {
				next = append(next, s.after(e)...)
			}
			return next
		},
		DescribeOperation: func(input, _ any) string {
			e := input.(request)
			return fmt.Sprintf("%s %s of epoch %d: %d %s %s%s", e.Op, e.Kind, e.Epoch, e.Status, e.Code, e.State, e.Lease)
		},
	}
}

// unseen gives the states that a job can have come to by itself.
func (f *jobFacts) unseen(from jobState) []jobState {
	states := []jobState{from}
	for i := 0; i < len(states); i++ {
		for _, next := range f.unseenStep(states[i]) {
			if !slices.Contains(states, next) {
				states = append(states, next)
			}
		}
	}
	return states
}

func (f *jobFacts) unseenStep(s jobState) (next []jobState) {
	to := func(at place, epoch int64) { next = append(next, jobState{at, epoch, false, s.ended}) }
	switch {
	case s.at == waiting && s.epoch < f.most && !f.granted[s.epoch+1]:
		to(running, s.epoch+1)
	case s.at == running && s.cancel:
		to(cancelled, s.epoch)
	case s.at == running:
		to(waiting, s.epoch)
	case s.at == dead && f.redriven:
		to(waiting, s.epoch)
		if s.epoch < f.most && !f.granted[s.epoch+1] {
			to(waiting, s.epoch+1)
		}
	}
	if f.died && (s.at == waiting || s.at == running && !s.cancel) {
		to(dead, s.epoch)
	}
	return next
}

// after gives the states that a request with its answer leads to; none if it cannot have been answered so.
func (s jobState) after(e request) []any {
	held := s.at == running && s.epoch == e.Epoch
	switch e.Op {
	case OpClaim:
		if s.at == waiting && s.epoch+1 == e.Epoch {
			return []any{jobState{running, e.Epoch, false, s.ended}}
		}
		return nil
	case OpHeartbeat:
		return only(s, e.Lease == "lost" && !held || e.Lease == "ok" && held && !s.cancel || e.Lease == "cancel" && held && s.cancel)
	case OpRead:
		return only(s, s.at == placeOf(e.State) && s.epoch == e.Epoch)
	case OpCancel:
		return s.afterCancel(e)
	}
	return s.afterOutcome(e, held)
}

func only(s jobState, legal bool) []any {
	if legal {
		return []any{s}
	}
	return nil
}

func (s jobState) afterCancel(e request) []any {
	asked := s
	switch s.at {
	case waiting:
		asked.at = cancelled
	case running:
		asked.cancel = true
	case completed, dead, cancelled:
	}
	switch {
	case e.OK():
		return only(asked, asked.at == placeOf(e.State))
	case e.answered(): // job_terminal
		return only(s, s.at == completed || s.at == dead)
	}
	return []any{s, asked}
}

func (s jobState) afterOutcome(e request, held bool) []any {
	name := fmt.Sprintf("%d:%s ", e.Epoch, e.Kind)
	repeated := strings.Contains(" "+s.ended, " "+name)
	if e.answered() && !e.OK() { // lease_lost
		return only(s, !held)
	}
	var next []any
	if repeated || !e.OK() {
		next = append(next, s)
	}
	if !held {
		return next
	}
	for _, state := range after[e.Kind] {
		to := placeOf(state)
		// A job that was asked to stop does not wait again, and only such a one is cancelled by its worker.
		legal := to == completed || s.cancel == (to == cancelled)
		if legal && (!e.OK() || to == placeOf(e.State)) {
			next = append(next, jobState{to, s.epoch, false, s.ended + name})
		}
	}
	return next
}
