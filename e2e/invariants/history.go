package invariants

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// What clients do that has consequences.
const (
	OpSubmit    = "submit"
	OpClaim     = "claim"
	OpHeartbeat = "heartbeat"
	OpOutcome   = "outcome"
	OpCancel    = "cancel"
	OpRead      = "read"
	OpOther     = "other"
	// OpImage is no request: a row's image before and after a stale write.
	OpImage = "image"
)

// Event is one request of one client about one job, with its answer. A claim has
// one event of its own and one for each job that it got; a batch one for each item.
type Event struct {
	// Actor, Seq and Index name the event. A second one of the same name takes the
	// first one's place: the answer that came after all.
	Actor string `json:"a"`
	Seq   int64  `json:"n"`
	Index int    `json:"i,omitzero"`
	// Tenant is whose key was used; empty for the platform's.
	Tenant string    `json:"t,omitzero"`
	Op     string    `json:"op"`
	Sent   time.Time `json:"sent"`
	Done   time.Time `json:"done,omitzero"`
	// Status and Code are the answer's; 0 where none arrived.
	Status int    `json:"s,omitzero"`
	Code   string `json:"c,omitzero"`
	// RetryAfter is the header of that name.
	RetryAfter string `json:"ra,omitzero"`

	Job string `json:"job,omitzero"`
	// Owner is the claimed job's tenant, as the answer says.
	Owner string `json:"owner,omitzero"`
	// Mark, Key, Body, Payload and Queue belong to a submit: the payload's mark, the
	// Idempotency-Key, digests of body and payload. Body also tells outcomes apart.
	Mark    string `json:"mark,omitzero"`
	Key     string `json:"key,omitzero"`
	Body    string `json:"body,omitzero"`
	Payload string `json:"payload,omitzero"`
	Queue   string `json:"q,omitzero"`
	// Created is when the job was stored, by the database's clock.
	Created time.Time `json:"created,omitzero"`
	// Kind is an outcome's; Answer is what it was answered, byte for byte.
	Kind   string `json:"kind,omitzero"`
	State  string `json:"state,omitzero"`
	Answer string `json:"answer,omitzero"`
	// The lease, of claims, heartbeats and outcomes.
	Token       string    `json:"token,omitzero"`
	Epoch       int64     `json:"epoch,omitzero"`
	Attempt     int       `json:"attempt,omitzero"`
	MaxAttempts int       `json:"max,omitzero"`
	LeaseEnds   time.Time `json:"ends,omitzero"`
	// Lease is what a heartbeat was told of it: ok, cancel or lost.
	Lease string `json:"lease,omitzero"`
	// Foreign are marks of other tenants that the answer held.
	Foreign []string `json:"foreign,omitzero"`
	// Before and After are a row's images around a stale write.
	Before string `json:"before,omitzero"`
	After  string `json:"after,omitzero"`
}

// OK says that the request was answered and did what it asked.
func (e Event) OK() bool { return e.Status >= 200 && e.Status <= 299 }

// Refused says that the answer leaves no doubt: nothing happened.
func (e Event) Refused() bool {
	switch {
	case e.Status >= 400 && e.Status <= 499:
		return e.Code != "idempotency_in_flight"
	case e.Status == 503:
		return e.Code == "overloaded" || e.Code == "core_unavailable" || e.Code == "tenant_moving"
	}
	return false
}

// History is what all clients of a run saw, by the time at which they asked.
type History struct{ Events []Event }

type eventName struct {
	actor string
	seq   int64
	index int
}

// Merge makes one history of many.
func Merge(parts ...[]Event) History {
	last := map[eventName]int{}
	var h History
	for _, part := range parts {
		for _, e := range part {
			name := eventName{e.Actor, e.Seq, e.Index}
			if at, ok := last[name]; ok {
				h.Events[at] = e
				continue
			}
			last[name] = len(h.Events)
			h.Events = append(h.Events, e)
		}
	}
	slices.SortStableFunc(h.Events, func(a, b Event) int {
		return cmp.Or(a.Sent.Compare(b.Sent), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Index, b.Index))
	})
	return h
}

// ReadFile reads the events of a process. Its last line may be torn: the process
// was killed while it wrote.
func ReadFile(name string) ([]Event, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var events []Event
	var torn error
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if torn != nil {
			return nil, torn // not the last line
		}
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			torn = fmt.Errorf("%s, after %d events: %w", name, len(events), err)
			continue
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

// Count counts events.
func (h History) Count(wanted func(Event) bool) int {
	n := 0
	for i := range h.Events {
		if wanted(h.Events[i]) {
			n++
		}
	}
	return n
}

// Accepted gives the ids of accepted submits.
func (h History) Accepted() map[string]bool {
	ids := map[string]bool{}
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == OpSubmit && e.OK() && e.Job != "" {
			ids[e.Job] = true
		}
	}
	return ids
}

// StaleRefused counts outcomes and heartbeats that were told that the lease is lost.
func (h History) StaleRefused() int {
	return h.Count(func(e Event) bool { return e.Op == OpOutcome && e.Status == 409 && e.Code == "lease_lost" })
}

// claims gives the jobs that were claimed, each job's claims by epoch.
func (h History) claims() map[string][]*Event {
	byJob := map[string][]*Event{}
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == OpClaim && e.Job != "" {
			byJob[e.Job] = append(byJob[e.Job], e)
		}
	}
	for _, claims := range byJob {
		slices.SortStableFunc(claims, func(a, b *Event) int { return cmp.Compare(a.Epoch, b.Epoch) })
	}
	return byJob
}

// outcomes gives every outcome that was sent, by job, in the order sent.
func (h History) outcomes() map[string][]*Event {
	byJob := map[string][]*Event{}
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == OpOutcome {
			byJob[e.Job] = append(byJob[e.Job], e)
		}
	}
	return byJob
}
