package invariants

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Linear says that the answers of the API are those of one machine that does one request after the other, each at some
// moment between its being sent and its answer: Porcupine looks for such an order, for each Idempotency-Key and for
// each job by itself. A request without an answer may have taken effect at any moment after it was sent, or not at all.
func Linear(h History, db Database) []string {
	v := violations{name: "linearizable"}
	keyOps, jobOps := map[string][]porcupine.Operation{}, map[string][]porcupine.Operation{}
	facts := factsOf(h, db)
	for i := range h.Events {
		e := &h.Events[i]
		switch {
		case e.Op == OpSubmit && e.Key != "" && (e.OK() || e.Code == "idempotency_mismatch" || !e.Refused()):
			name := fmt.Sprintf("key %s of tenant %s, item %d", e.Key, e.Tenant, e.Index)
			keyOps[name] = append(keyOps[name], operation(e, nil))
		case ofJob(e):
			jobOps[e.Job] = append(jobOps[e.Job], operation(e, facts[e.Job]))
		}
	}
	keys, jobs := keyModel().ToModel(), jobModel().ToModel()
	for name, ops := range keyOps {
		v.order(keys, name, ops)
	}
	for job, ops := range jobOps {
		v.order(jobs, "job "+job, ops)
	}
	return v.list()
}

// orderTime bounds the search for one order. The histories of a key or a job are short: it takes microseconds.
const orderTime = 30 * time.Second

// order adds a violation if no order explains the operations.
func (v *violations) order(model porcupine.Model, name string, ops []porcupine.Operation) {
	result, info := porcupine.CheckOperationsVerbose(model, ops, orderTime)
	switch result {
	case porcupine.Ok:
	case porcupine.Illegal:
		v.add("no order explains the answers of the %s:%s", name, described(model, ops, info))
	case porcupine.Unknown:
		v.add("no order of the %d operations of the %s was found within %v", len(ops), name, orderTime)
	}
}

// described shows the operations around the one at which the longest order ends: the first to be answered of those that
// it leaves out, which have a minus.
func described(model porcupine.Model, ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	placed := map[*Event]bool{}
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) <= len(placed) {
			continue
		}
		clear(placed)
		for _, op := range order {
			placed[op.Input.(request).Event] = true
		}
	}
	ops = slices.SortedStableFunc(slices.Values(ops), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	stuck := 0
	for i, op := range ops {
		if out := ops[stuck].Input.(request); !placed[op.Input.(request).Event] && (placed[out.Event] || op.Return < ops[stuck].Return) {
			stuck = i
		}
	}
	const around = 20
	from, to := max(0, stuck-around), min(len(ops), stuck+around)
	var text strings.Builder
	for i := range ops {
		op := ops[i]
		// What is open all the time matters too.
		if (i < from && (op.Return < ops[from].Call || placed[op.Input.(request).Event])) || i >= to {
			continue
		}
		end, sign := "never answered", '-'
		if op.Return != never {
			end = time.Duration(op.Return - ops[0].Call).String()
		}
		if placed[op.Input.(request).Event] {
			sign = ' '
		}
		fmt.Fprintf(&text, "\n  %c %v to %s: %s", sign, time.Duration(op.Call-ops[0].Call), end, model.DescribeOperation(op.Input, op.Output))
	}
	fmt.Fprintf(&text, "\n    (%d of %d operations, %d of all have a place)", to-from, len(ops), len(placed))
	return text.String()
}

// never is when a request without an answer ends.
const never = math.MaxInt64

// request is the input of an operation; its event has the output too.
type request struct {
	*Event
	facts *jobFacts
}

func operation(e *Event, facts *jobFacts) porcupine.Operation {
	op := porcupine.Operation{Input: request{e, facts}, Call: e.Sent.UnixNano(), Return: e.Done.UnixNano()}
	if !e.answered() {
		op.Return = never
	}
	return op
}

// answered says that the answer tells what happened.
func (e Event) answered() bool { return !e.Done.IsZero() && (e.OK() || e.Refused()) }

// A key's model: the first request with it stores its body and job, which every later one then finds.

type keyState struct{ body, job string }

// someJob is the job of a request without an answer.
const someJob = "?"

func keyModel() *porcupine.NondeterministicModel {
	return &porcupine.NondeterministicModel{
		Init: func() []any { return []any{keyState{}} },
		Step: func(state, input, _ any) []any {
			s, e := state.(keyState), input.(request)
			unused := s == keyState{}
			switch {
			case e.OK() && (unused || s.body == e.Body && (s.job == e.Job || s.job == someJob)):
				return []any{keyState{e.Body, e.Job}}
			case e.OK():
				return nil
			case e.answered(): // a mismatch
				if unused || s.body == e.Body {
					return nil
				}
				return []any{s}
			case unused:
				return []any{s, keyState{e.Body, someJob}}
			}
			return []any{s}
		},
		DescribeOperation: func(input, _ any) string {
			e := input.(request)
			return fmt.Sprintf("submit of the body %s: %d %s %s", e.Body, e.Status, e.Code, e.Job)
		},
	}
}

// LinearCap says that a cap on a queue's live jobs was applied to one request after the other: a submit was accepted
// only if there was room, and refused only if there was none. limit is in jobs; the queue had none before, and its jobs
// end by cancels alone. What a request without an answer did is read from the database; only its moment is searched for.
func LinearCap(h History, db Database, queue string, limit int) []string {
	v := violations{name: "linearizable cap"}
	model := porcupine.Model{
		Init: func() any { return 0 }, // live jobs
		Step: func(state, input, _ any) (bool, any) {
			live, e := state.(int), input.(request)
			switch {
			case e.Op == OpCancel:
				return live > 0, live - 1
			case full(e.Event):
				return live == limit, live
			}
			return live < limit, live + 1
		},
		DescribeOperation: func(input, _ any) string {
			e := input.(request)
			return fmt.Sprintf("%s %s: %d %s", e.Op, e.Job, e.Status, e.Code)
		},
	}
	v.order(model, "cap of "+queue, capOperations(h, db, queue))
	return v.list()
}

// capOperations are the requests that added a live job to the queue, were refused for its cap, or ended a job. The
// cancels of a job are one operation: it ended once, after the first was sent and before the first success was answered.
func capOperations(h History, db Database, queue string) []porcupine.Operation {
	stored, state := map[string]string{}, map[string]string{}
	for i := range db.Rows {
		r := &db.Rows[i]
		stored[r.Mark], state[r.ID] = r.ID, r.State
	}
	var ops []porcupine.Operation
	cancelAt := map[string]int{}
	ofQueue := map[string]bool{}
	for i := range h.Events {
		e := h.Events[i]
		switch {
		case e.Op == OpSubmit && e.Queue == queue && full(&e):
			ops = append(ops, operation(&e, nil))
		case e.Op == OpSubmit && e.Queue == queue && (e.OK() || !e.Refused()):
			if !e.OK() {
				e.Job = stored[e.Mark]
			}
			if e.Job != "" {
				ofQueue[e.Job] = true
				ops = append(ops, operation(&e, nil))
			}
		case e.Op == OpCancel && ofQueue[e.Job] && state[e.Job] == "cancelled" && (e.OK() || !e.Refused()):
			at, known := cancelAt[e.Job]
			if !known {
				at, cancelAt[e.Job] = len(ops), len(ops)
				ops = append(ops, operation(&e, nil))
			}
			if e.OK() {
				ops[at].Return = min(ops[at].Return, e.Done.UnixNano())
			}
		}
	}
	return ops
}

func full(e *Event) bool { return e.Code == "queue_full" || e.Code == "active_cap_reached" }
