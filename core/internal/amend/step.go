package amend

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/budget"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// step is what becomes of one job.
type step struct {
	row  *Row
	edit *Edit

	state    job.State
	lane     lanes.ID
	queue    string
	priority int16
	key      *string
	runAt    time.Time
	counted  caps.Counter
	gate     int16
	// toGate says that the job comes to its gate, stays that it keeps its place or has none, placed that its place is another one.
	toGate, stays, placed bool
}

// stepOf decides what becomes of a job; row is nil for one that is not live.
func stepOf(row *Row, edit *Edit, counts *caps.Tally) (step, error) {
	if row == nil || row.State == job.Running {
		return step{}, ErrStarted
	}
	if like := &edit.Like; like.Queue != "" && (row.Queue != like.Queue || like.Type != "" && (row.Type != like.Type || !slices.Equal(row.Tags, like.Tags))) {
		return step{}, ErrUnlike
	}
	s := step{row: row, edit: edit, state: row.State, lane: row.LaneID, queue: row.Queue, priority: row.Priority, key: row.Key, runAt: row.RunAt, counted: row.Counted, gate: row.Gate}
	if edit.To != 0 {
		s.lane = edit.To
	}
	if edit.Priority != nil {
		s.priority = *edit.Priority
	}
	if err := s.bounds(); err != nil {
		return s, err
	}
	if err := s.move(counts); err != nil {
		return s, err
	}
	rekeyed := false
	if all := edit.All; all != nil {
		rekeyed = store.OrElse(all.Key, "") != store.OrElse(row.Key, "") || (all.Key == nil) != (row.Key == nil) || !maps.Equal(all.Costs, row.Costs)
		s.key = all.Key
	}
	s.start()
	s.place(rekeyed)
	return s, nil
}

// bounds refuses what only the database's clock and the job itself can tell.
func (s *step) bounds() error {
	var wrong []problem.FieldError
	if deadline := s.edit.Deadline; deadline != nil && s.edit.All == nil && !deadline.After(s.row.Now) {
		wrong = append(wrong, problem.FieldError{Field: "deadline", Message: "must be in the future"})
	}
	if most := s.edit.MaxAttempts; most != nil && s.edit.All == nil && *most <= s.row.Attempt {
		wrong = append(wrong, problem.FieldError{Field: "max_attempts", Message: fmt.Sprintf("must be more than the %d attempts that the job has used", s.row.Attempt)})
	}
	if len(wrong) > 0 {
		return problem.Invalid(wrong...)
	}
	return nil
}

// move counts the job in its new queue.
func (s *step) move(counts *caps.Tally) error {
	if s.edit.Queue == "" || s.edit.Queue == s.row.Queue {
		return nil
	}
	s.queue = s.edit.Queue
	under := queueCap(s.edit.Caps)
	if crowded := counts.Full(under); len(crowded) > 0 {
		return full(s.queue, crowded[0])
	}
	counts.Take(under, 1)
	s.counted = s.counted&^caps.ActiveQueue | caps.BitsOf(under)
	return nil
}

// start decides when the job may start.
func (s *step) start() {
	if s.edit.All != nil && s.state == job.Waiting { // it waits for signals, whatever it says then
		return
	}
	switch {
	case s.edit.RunAt != nil:
		s.runAt = *s.edit.RunAt
	case s.edit.Delay != nil:
		s.runAt = s.row.Now.Add(*s.edit.Delay)
	}
	bounded := s.edit.Latest != nil && s.runAt.After(s.row.CreatedAt.Add(*s.edit.Latest))
	if bounded {
		s.runAt = s.row.CreatedAt.Add(*s.edit.Latest)
	}
	switch later := s.runAt.After(s.row.Now); {
	case later && s.state == job.Queued:
		s.state = job.Scheduled
	case later:
	case s.state == job.Queued: // it may start since before
		s.runAt = s.row.RunAt
	default:
		if !bounded && !s.runAt.Equal(s.row.RunAt) {
			s.runAt = s.row.Now
		}
		if s.state == job.Scheduled {
			s.state = job.Queued
		}
	}
}

// place decides where the job stands. One with a key comes to its gate again where it would have another turn.
func (s *step) place(rekeyed bool) {
	moved := s.queue != s.row.Queue || rekeyed
	another := s.lane != s.row.LaneID || s.priority != s.row.Priority
	byTurn := s.row.Fair || s.edit.ToFair || s.row.Gate != 0 || s.row.ReadyAt == nil
	switch was := s.row.State; {
	case s.state != job.Queued:
		s.stays = was != job.Queued
		if was == job.Queued { // others of its key no longer wait for it
			moved = true
		}
	case s.key != nil && (was != job.Queued || moved || another && byTurn):
		s.toGate = true
	case was != job.Queued:
		s.placed = true
	case s.key == nil && s.row.ReadyAt == nil: // its key, or its costs, held it
		s.placed = true
	default:
		s.stays, s.placed = true, another
	}
	switch {
	case moved:
		s.gate = 0
	case s.toGate:
		s.gate &= 3
	}
}

func (s *step) amended() Amended {
	made := Amended{ID: s.row.ID, State: s.state, Deadline: s.edit.Deadline != nil || s.edit.All != nil && s.edit.All.ExpiresAfterMS != nil}
	if s.state == job.Queued && !s.toGate { // a claim that met the lock has passed it over, also where it keeps its place
		made.Ready = jobs.Ready{Lane: s.lane, Priority: s.priority, ID: s.row.ID}
	}
	return made
}

// amendSQL changes all columns at once: a check of the table binds some of them.
const amendSQL = `
WITH amended AS (
  UPDATE jobs
  SET (state, priority, payload, metadata, tags, run_at, deadline, max_attempts, queue, lane_id, counted, gate, ready_at, waiting_since, size, attempt,
       type, retry_base_ms, retry_cap_ms, retry_jitter, retry_curve, timeout_ms, key, key_weight, costs, correlation_id, traceparent) = (
        SELECT i.state, i.priority, COALESCE(i.payload::json, jobs.payload), COALESCE(i.metadata::json, jobs.metadata), COALESCE(i.tags::text[], jobs.tags),
               i.run_at, COALESCE(i.deadline, statement_timestamp() + i.expires_ms * interval '1 millisecond', CASE WHEN NOT i.whole THEN jobs.deadline END),
               COALESCE(i.max_attempts, jobs.max_attempts), i.queue, i.lane_id, i.counted, i.gate,
               CASE WHEN i.stays THEN jobs.ready_at WHEN i.state = 'queued' AND NOT i.to_gate THEN statement_timestamp() END,
               CASE WHEN i.stays THEN jobs.waiting_since WHEN i.to_gate THEN COALESCE(jobs.waiting_since, jobs.ready_at, statement_timestamp()) END,
               jobs.size + COALESCE(octet_length(i.payload) - octet_length(jobs.payload::text), 0) + COALESCE(octet_length(i.metadata) - octet_length(jobs.metadata::text), 0)
                 + COALESCE(octet_length(i.tags::text[]::text) - octet_length(jobs.tags::text), 0),
               CASE WHEN i.whole THEN 0 ELSE jobs.attempt END, -- new content has all of its attempts
               CASE WHEN i.whole THEN i.type ELSE jobs.type END,
               COALESCE(i.base, jobs.retry_base_ms), COALESCE(i.cap, jobs.retry_cap_ms), COALESCE(i.jitter, jobs.retry_jitter), COALESCE(i.curve, jobs.retry_curve),
               CASE WHEN i.whole THEN i.timeout_ms ELSE jobs.timeout_ms END, CASE WHEN i.whole THEN i.key ELSE jobs.key END,
               CASE WHEN i.whole THEN i.key_weight ELSE jobs.key_weight END, CASE WHEN i.whole THEN i.costs::jsonb ELSE jobs.costs END,
               CASE WHEN i.whole THEN i.correlation_id ELSE jobs.correlation_id END, CASE WHEN i.whole THEN i.traceparent ELSE jobs.traceparent END
        FROM (SELECT (@states::text[])[place] AS state, (@priorities::smallint[])[place] AS priority, (@payloads::text[])[place] AS payload,
                     (@metadata::text[])[place] AS metadata, (@tags::text[])[place] AS tags, (@run_ats::timestamptz[])[place] AS run_at,
                     (@deadlines::timestamptz[])[place] AS deadline, (@expiries::bigint[])[place] AS expires_ms, (@max_attempts::integer[])[place] AS max_attempts,
                     (@queues::text[])[place] AS queue, (@lanes::bigint[])[place] AS lane_id, (@counted::smallint[])[place] AS counted,
                     (@gates::smallint[])[place] AS gate, (@stays::boolean[])[place] AS stays, (@to_gate::boolean[])[place] AS to_gate,
                     (@whole::boolean[])[place] AS whole, (@types::text[])[place] AS type, (@bases::bigint[])[place] AS base, (@caps::bigint[])[place] AS cap,
                     (@jitters::float8[])[place] AS jitter, (@curves::text[])[place] AS curve, (@timeouts::bigint[])[place] AS timeout_ms,
                     (@keys::text[])[place] AS key, (@weights::float8[])[place] AS key_weight, (@costs::text[])[place] AS costs,
                     (@correlation_ids::text[])[place] AS correlation_id, (@traceparents::text[])[place] AS traceparent
              -- the place of the row's id in the arrays, as in package jobs
              FROM (SELECT width_bucket(jobs.id, @ids::uuid[]) AS place OFFSET 0) AS input) AS i)
  WHERE id = ANY(@ids::uuid[])
  RETURNING id, ready_at
)
SELECT id, ready_at FROM amended`

// columns are the arguments of amendSQL.
type columns struct {
	ids                                      []uuid.UUID
	states, queues                           []string
	lanes                                    []lanes.ID
	priorities, counted, gates               []int16
	payloads, metadata, tags                 []*string
	runAts                                   []time.Time
	deadlines                                []*time.Time
	most                                     []*int32
	stays, toGate, whole                     []bool
	types, curves, keys, costs, correlations []*string
	traceparents                             []*string
	expiries, bases, caps, timeouts          []*int64
	jitters, weights                         []*float64
}

func argsOf(steps []step) store.Args {
	slices.SortFunc(steps, func(a, b step) int { return bytes.Compare(a.row.ID[:], b.row.ID[:]) })
	var c columns
	for i := range steps {
		c.add(&steps[i])
	}
	return store.Args{
		"ids": c.ids, "states": c.states, "queues": c.queues, "lanes": c.lanes, "priorities": c.priorities, "counted": c.counted, "gates": c.gates,
		"payloads": c.payloads, "metadata": c.metadata, "tags": c.tags, "run_ats": c.runAts, "deadlines": c.deadlines, "expiries": c.expiries,
		"max_attempts": c.most, "stays": c.stays, "to_gate": c.toGate, "whole": c.whole, "types": c.types, "bases": c.bases, "caps": c.caps,
		"jitters": c.jitters, "curves": c.curves, "timeouts": c.timeouts, "keys": c.keys, "weights": c.weights, "costs": c.costs,
		"correlation_ids": c.correlations, "traceparents": c.traceparents,
	}
}

func (c *columns) add(s *step) {
	all := s.edit.All
	c.ids, c.states, c.queues, c.lanes = append(c.ids, s.row.ID), append(c.states, string(s.state)), append(c.queues, s.queue), append(c.lanes, s.lane)
	c.priorities, c.counted, c.gates = append(c.priorities, s.priority), append(c.counted, int16(s.counted)), append(c.gates, s.gate)
	c.payloads, c.metadata = append(c.payloads, textOf(s.edit.Payload)), append(c.metadata, textOf(s.edit.Metadata))
	var tags *string
	if s.edit.Tags != nil {
		text := store.TextArray(*s.edit.Tags)
		tags = &text
	}
	c.tags, c.runAts, c.deadlines, c.most = append(c.tags, tags), append(c.runAts, s.runAt), append(c.deadlines, s.edit.Deadline), append(c.most, s.edit.MaxAttempts)
	c.stays, c.toGate, c.whole = append(c.stays, s.stays), append(c.toGate, s.toGate), append(c.whole, all != nil)
	if all == nil {
		all = &All{}
		c.types, c.curves, c.costs = append(c.types, nil), append(c.curves, nil), append(c.costs, nil)
		c.bases, c.caps, c.jitters = append(c.bases, nil), append(c.caps, nil), append(c.jitters, nil)
	} else {
		var costs *string
		if all.Costs != nil {
			costs = textOf(store.JSON(all.Costs))
		}
		c.types, c.curves, c.costs = append(c.types, &all.Type), append(c.curves, new(string(all.Retry.Curve.OrDefault()))), append(c.costs, costs)
		c.bases, c.caps = append(c.bases, new(all.Retry.Base.Milliseconds())), append(c.caps, new(all.Retry.Cap.Milliseconds()))
		c.jitters = append(c.jitters, &all.Retry.Jitter)
	}
	c.expiries, c.timeouts = append(c.expiries, all.ExpiresAfterMS), append(c.timeouts, all.TimeoutMS)
	c.keys, c.weights = append(c.keys, all.Key), append(c.weights, all.KeyWeight)
	c.correlations, c.traceparents = append(c.correlations, all.CorrelationID), append(c.traceparents, all.Traceparent)
}

func textOf(json []byte) *string {
	if json == nil {
		return nil
	}
	text := string(json)
	return &text
}

// placesOf fills in since when the jobs wait that have another place.
func placesOf(rows pgx.Rows, amended []Amended) error {
	var id uuid.UUID
	var ready *time.Time
	at := map[uuid.UUID]*time.Time{}
	if _, err := pgx.ForEachRow(rows, []any{&id, &ready}, func() error {
		at[id] = ready
		return nil
	}); err != nil {
		return err
	}
	for i := range amended {
		if since := at[amended[i].ID]; amended[i].Ready.Lane != 0 && since != nil {
			amended[i].Ready.At = *since
		}
	}
	return nil
}

// leave queues what others are told of jobs that leave a queue, a key or a budget, or come to one. It says whether there are checks.
func leave(batch *pgx.Batch, steps []step) bool {
	left := caps.Credits{}
	var checks []gate.Key
	var settled []budget.Settlement
	for i := range steps {
		s := &steps[i]
		if s.queue != s.row.Queue {
			left.Of(s.row.TenantID, s.row.UserID, s.row.Queue, s.row.Type, s.row.Counted, caps.ActiveQueue)
		}
		away := s.toGate || !s.stays && s.row.State == job.Queued || s.gate != s.row.Gate
		if s.row.Key != nil && away && (s.row.Gate != 0 || s.row.State == job.Queued && s.row.ReadyAt == nil) {
			checks = append(checks, gate.Key{Tenant: s.row.TenantID, Queue: s.row.Queue, Key: *s.row.Key})
		}
		if s.toGate {
			checks = append(checks, gate.Key{Tenant: s.row.TenantID, Queue: s.queue, Key: *s.key})
		}
		if away && s.row.State == job.Queued {
			settled = append(settled, budget.Settlements(s.row.TenantID, s.row.UserID, s.row.Key, nil, s.row.Costs, nil, true, nil)...)
		}
	}
	left.Append(batch)
	gate.Append(batch, checks)
	budget.Settle(batch, settled)
	return len(checks) > 0 || len(settled) > 0
}
