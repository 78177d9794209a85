package alerts

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// place is what a row is of.
type place struct{ Webhook, State, Name string }

// row is a state as one webhook is told of it.
type row struct {
	Webhook string
	State   string
	Name    string
	Detail  string
	BeganAt time.Time
	GoneAt  *time.Time
	Told    bool
}

// outcome is what becomes of a row.
type outcome int

const (
	unchanged outcome = iota
	kept
	began
	ended
	dropped
)

// see decides what becomes of a row whose state holds.
func (r *row) see(s *Sighting, now time.Time, threshold time.Duration) outcome {
	made := unchanged
	if r.GoneAt != nil || r.Detail != s.Detail && !r.Told {
		r.GoneAt, r.Detail, made = nil, s.Detail, kept
	}
	if r.Told {
		return made
	}
	if s.Held != nil { // it says itself since when, which may have changed
		r.BeganAt, made = now.Add(-*s.Held), kept
	}
	if now.Sub(r.BeganAt) >= threshold {
		r.Told, made = true, began
	}
	return made
}

// miss decides what becomes of a row whose state is not seen.
func (r *row) miss(now time.Time, endedAfter time.Duration) outcome {
	made := unchanged
	if r.GoneAt == nil {
		r.GoneAt, made = &now, kept
	}
	gone := now.Sub(*r.GoneAt)
	switch {
	case r.Told && gone >= endedAfter:
		return ended
	case !r.Told && gone >= forgotten:
		return dropped
	}
	return made
}

// changes are rows to be written, and events to be appended, as arrays.
type changes struct {
	kept, dropped []*row
	hooks, kinds  []string
	alerts        []json.RawMessage
}

// compare decides what becomes of all states of a tenant.
func compare(hooks []hook, stored []*row, seen []Sighting) *changes {
	made := &changes{}
	rows := make(map[place]*row, len(stored))
	for _, one := range stored {
		rows[place{one.Webhook, one.State, one.Name}] = one
	}
	for i := range hooks {
		made.compareOne(&hooks[i], rows, seen)
	}
	for _, one := range rows { // of a webhook that has gone, or is not told of it any more
		made.dropped = append(made.dropped, one)
	}
	return made
}

// compareOne takes the rows of one webhook from rows.
func (c *changes) compareOne(h *hook, rows map[place]*row, seen []Sighting) {
	thresholds := h.Thresholds.InForce()
	endedAfter := thresholds.Of(api.ThresholdEnded)
	for i := range seen {
		s := &seen[i]
		threshold := thresholds.Of(s.State)
		if !h.wants(s) || s.State == api.EventQueueStalled && *s.Held < threshold {
			continue
		}
		at := place{h.Name, s.State, s.Name}
		found, known := rows[at]
		if !known {
			found = &row{Webhook: h.Name, State: s.State, Name: s.Name, Detail: s.Detail, BeganAt: h.Now}
		}
		delete(rows, at)
		made := found.see(s, h.Now, threshold)
		if !known {
			made = max(made, kept)
		}
		c.add(h, found, made)
	}
	for at, one := range rows {
		if at.Webhook != h.Name || !tells(h.Events, at.State) || h.Queue != nil && ofQueue(at.State, at.Name) && *h.Queue != at.Name {
			continue
		}
		delete(rows, at)
		c.add(h, one, one.miss(h.Now, endedAfter))
	}
}

// wants says whether the webhook is told of what was seen. No webhook is told of itself.
func (h *hook) wants(s *Sighting) bool {
	switch {
	case !tells(h.Events, s.State), s.State == api.EventWebhookFailing && s.Name == h.Name:
		return false
	case s.Of == api.AlertOfQueue:
		return h.Queue == nil || *h.Queue == s.Name
	}
	return true
}

// of is what has a state.
func of(state, name string) string {
	switch {
	case state == api.EventScheduleMissed:
		return api.AlertOfSchedule
	case state == api.EventWebhookFailing:
		return api.AlertOfWebhook
	case name == "":
		return api.AlertOfTenant
	default:
		return api.AlertOfQueue
	}
}

func ofQueue(state, name string) bool { return of(state, name) == api.AlertOfQueue }

// add takes what has become of a row.
func (c *changes) add(h *hook, r *row, made outcome) {
	kind := r.State
	switch made {
	case unchanged:
		return
	case kept, began:
		c.kept = append(c.kept, r)
	case ended:
		kind = api.AlertEnd(r.State)
		fallthrough
	case dropped:
		c.dropped = append(c.dropped, r)
	}
	if made != began && made != ended {
		return
	}
	for _, want := range h.Events {
		if want != kind {
			continue
		}
		shown := api.Alert{State: r.State, Of: of(r.State, r.Name), Name: store.NullIfEmpty(r.Name), Detail: r.Detail, BeganAt: api.At(r.BeganAt)}
		if made == ended {
			shown.EndedAt = api.AtOrNil(r.GoneAt)
		}
		c.hooks, c.kinds, c.alerts = append(c.hooks, h.Name), append(c.kinds, kind), append(c.alerts, store.JSON(shown))
	}
}

// batch are the statements that write the changes.
func (c *changes) batch(owner tenant.ID) *pgx.Batch {
	batch := &pgx.Batch{}
	if len(c.dropped) > 0 {
		hooks, states, names := keys(c.dropped)
		batch.Queue(dropSQL, store.Args{"tenant_id": owner, "webhooks": hooks, "states": states, "names": names})
	}
	if len(c.kept) > 0 {
		hooks, states, names := keys(c.kept)
		details, begins, gone, told := make([]string, len(c.kept)), make([]time.Time, len(c.kept)), make([]*time.Time, len(c.kept)), make([]bool, len(c.kept))
		for i, one := range c.kept {
			details[i], begins[i], gone[i], told[i] = one.Detail, one.BeganAt, one.GoneAt, one.Told
		}
		batch.Queue(keepSQL, store.Args{
			"tenant_id": owner, "webhooks": hooks, "states": states, "names": names, "details": details, "begins": begins, "gone": gone, "told": told,
		})
	}
	if len(c.kinds) > 0 {
		batch.Queue(appendSQL, store.Args{"tenant_id": owner, "webhooks": c.hooks, "kinds": c.kinds, "alerts": c.alerts})
	}
	return batch
}

func keys(rows []*row) (hooks, states, names []string) {
	for _, one := range rows {
		hooks, states, names = append(hooks, one.Webhook), append(states, one.State), append(names, one.Name)
	}
	return hooks, states, names
}
