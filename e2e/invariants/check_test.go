package invariants_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
)

const (
	tenantA = "0198b2c0-0000-7000-8000-00000000000a"
	tenantB = "0198b2c0-0000-7000-8000-00000000000b"
)

// at is a moment of the run, in milliseconds from its start.
func at(ms int) time.Time { return time.UnixMilli(1_800_000_000_000 + int64(ms)) }

// run is a run that violates nothing: job 1 is submitted twice with its key, fails
// once, and is completed; job 2 loses its worker and is completed by another.
type run struct {
	h  invariants.History
	db invariants.Database
}

func good() *run {
	e := func(n int, op string, sent int, more func(*invariants.Event)) invariants.Event {
		event := invariants.Event{
			Actor: "a", Seq: int64(n), Op: op, Tenant: tenantA, Sent: at(sent), Done: at(sent + 5), Status: 200,
		}
		more(&event)
		return event
	}
	submit := func(job string) func(*invariants.Event) {
		return func(e *invariants.Event) {
			e.Job, e.Mark, e.Key, e.Body, e.Payload = job, invariants.Mark(tenantA, job), "key"+job, "body"+job, "payload"+job
		}
	}
	claim := func(job, token string, epoch int64, ends int) func(*invariants.Event) {
		return func(e *invariants.Event) {
			e.Job, e.Token, e.Epoch, e.Attempt, e.MaxAttempts = job, token, epoch, int(epoch), 3
			e.LeaseEnds, e.Mark = at(ends), invariants.Mark(tenantA, job)
		}
	}
	outcome := func(job, token, kind, state string, epoch int64) func(*invariants.Event) {
		return func(e *invariants.Event) {
			e.Job, e.Token, e.Kind, e.State, e.Epoch = job, token, kind, state, epoch
			e.Body, e.Answer = "body"+token, `{"state":"`+state+`"}`
		}
	}
	job := func(job, state string, epoch int64) func(*invariants.Event) {
		return func(e *invariants.Event) { e.Job, e.State, e.Epoch = job, state, epoch }
	}
	return &run{
		h: invariants.Merge([]invariants.Event{
			e(1, invariants.OpSubmit, 0, submit("1")),
			e(2, invariants.OpSubmit, 10, submit("1")),
			e(3, invariants.OpSubmit, 20, submit("2")),
			e(4, invariants.OpClaim, 30, claim("1", "1a", 1, 2030)),
			e(5, invariants.OpOutcome, 40, outcome("1", "1a", "fail", "scheduled", 1)),
			e(6, invariants.OpClaim, 100, claim("1", "1b", 2, 2100)),
			e(7, invariants.OpHeartbeat, 200, func(e *invariants.Event) {
				e.Job, e.Token, e.Epoch, e.Lease, e.LeaseEnds = "1", "1b", 2, "ok", at(2200)
			}),
			e(8, invariants.OpOutcome, 300, outcome("1", "1b", "complete", "completed", 2)),
			e(9, invariants.OpOutcome, 320, outcome("1", "1b", "complete", "completed", 2)),
			e(10, invariants.OpClaim, 400, claim("2", "2a", 1, 2400)),
			e(11, invariants.OpClaim, 3000, claim("2", "2b", 2, 5000)),
			e(12, invariants.OpOutcome, 3100, func(e *invariants.Event) {
				outcome("2", "2a", "complete", "", 1)(e)
				e.Status, e.Code, e.Answer = 409, "lease_lost", ""
			}),
			e(13, invariants.OpOutcome, 3200, outcome("2", "2b", "complete", "completed", 2)),
			e(14, invariants.OpImage, 3100, func(e *invariants.Event) { e.Job, e.Before, e.After = "2", "row", "row" }),
			e(15, invariants.OpRead, 50, job("1", "scheduled", 1)),
			e(16, invariants.OpRead, 330, job("1", "completed", 2)),
			e(17, invariants.OpCancel, 3300, func(e *invariants.Event) { e.Job, e.Status, e.Code = "2", 409, "job_terminal" }),
		}),
		db: invariants.Database{
			Now: at(10_000),
			Rows: []invariants.Row{
				{
					ID: "1", Tenant: tenantA, State: "completed", Table: "finished_jobs", Mark: invariants.Mark(tenantA, "1"),
					Payload: "payload1", Attempt: 2, MaxAttempts: 3, Epoch: 2,
				},
				{
					ID: "2", Tenant: tenantA, State: "completed", Table: "finished_jobs", Mark: invariants.Mark(tenantA, "2"),
					Payload: "payload2", Attempt: 2, MaxAttempts: 3, Epoch: 2,
				},
			},
			Attempts: []invariants.Attempt{
				{Job: "1", Epoch: 1, Attempt: 1, Kind: "failed"},
				{Job: "2", Epoch: 1, Attempt: 1, Kind: "lease_expired"},
			},
			Edges: []invariants.Edge{{
				Parent: "1", Child: "2", OnFailed: "cancel", Resolved: new(at(301)), ParentState: "completed", ParentEnded: new(at(300)),
				ChildState: "completed", Started: new(at(400)),
			}},
			Buckets:   []invariants.Bucket{{Tenant: tenantA, Rate: 1, Burst: 2}},
			Resources: []invariants.Resource{{Name: "goroutines", Before: 20, After: 22, Slack: 5}},
			Counters:  map[string]float64{"submitted": 2, "completed": 2, "dead_lettered": 0},
		},
	}
}

// event gives the event with a number.
func (r *run) event(n int64) *invariants.Event {
	for i := range r.h.Events {
		if r.h.Events[i].Seq == n {
			return &r.h.Events[i]
		}
	}
	panic("no such event")
}

func (r *run) remove(n int64) {
	r.h.Events = slices.DeleteFunc(r.h.Events, func(e invariants.Event) bool { return e.Seq == n })
}

func TestAGoodRunViolatesNothing(t *testing.T) {
	t.Parallel()
	r := good()
	if found := invariants.Check(r.h, r.db); len(found) > 0 {
		t.Fatalf("%s", strings.Join(found, "\n"))
	}
}

// Every invariant has runs that violate it, and is the one to say so.
func TestEveryPredicateCanFail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		invariant, name string
		spoil           func(*run)
	}{
		{"I1", "a job is lost", func(r *run) { r.db.Rows = r.db.Rows[1:] }},
		{"I1", "a job is in two tables", func(r *run) { r.db.Rows = append(r.db.Rows, r.db.Rows[0]) }},
		{"I1", "a job that nobody submitted", func(r *run) { r.remove(3) }},
		{"I1", "one key made two jobs", func(r *run) {
			twin := r.db.Rows[0]
			twin.ID = "3"
			r.db.Rows = append(r.db.Rows, twin)
		}},
		{"I1", "another payload", func(r *run) { r.db.Rows[0].Payload = "other" }},
		{"I1", "another tenant", func(r *run) { r.db.Rows[0].Tenant = tenantB }},
		{"I1", "a refused submit is there", func(r *run) {
			*r.event(3) = invariants.Event{
				Actor: "a", Seq: 3, Op: invariants.OpSubmit, Tenant: tenantA, Mark: invariants.Mark(tenantA, "2"), Status: 503, Code: "core_unavailable",
			}
		}},
		{"I2", "running past its lease", func(r *run) { r.db.Rows[0].State, r.db.Rows[0].LeaseEnds = "running", at(7_000) }},
		{"I2", "seen past its lease during the run", func(r *run) { r.db.Overdue = []string{"1"} }},
		{"I3", "one epoch for two", func(r *run) { r.event(11).Epoch = 1 }},
		{"I3", "one token for two", func(r *run) { r.event(11).Token = "2a" }},
		{"I3", "claimed while leased", func(r *run) { r.event(10).LeaseEnds = at(4_000) }},
		{"I3", "claimed while a heartbeat kept the lease", func(r *run) {
			e := r.event(7)
			e.Job, e.Token, e.Epoch, e.LeaseEnds = "2", "2a", 1, at(4_000)
		}},
		{"I3", "claimed while leased, after an outcome was refused", func(r *run) {
			e := r.event(5)
			e.Done, e.Status, e.Code, e.State, e.Answer = at(90), 409, "lease_lost", "", ""
		}},
		{"I3", "an epoch above the row's", func(r *run) { r.db.Rows[1].Epoch = 1 }},
		{"I3", "an epoch twice on record", func(r *run) { r.db.Attempts[1].Job = "1" }},
		{"I3", "the completed epoch has failed", func(r *run) { r.db.Attempts[0].Epoch = 2 }},
		{"I4", "a stale finish is accepted", func(r *run) { r.event(12).Status = 200 }},
		{"I4", "a stale finish is unknown", func(r *run) { r.event(12).Status = 404 }},
		{"I4", "a stale heartbeat is accepted", func(r *run) {
			e := r.event(12)
			e.Op, e.Status, e.Code, e.Lease = invariants.OpHeartbeat, 200, "", "ok"
		}},
		{"I4", "a stale finish changes the row", func(r *run) { r.event(14).After = "other" }},
		{"I5", "more attempts than allowed", func(r *run) { r.db.Rows[0].MaxAttempts = 1 }},
		{"I5", "claimed once too often", func(r *run) { r.event(11).MaxAttempts = 1 }},
		{"I5", "exhausted and not dead", func(r *run) {
			r.db.Rows[0].State, r.db.Rows[0].Table, r.db.Rows[0].Attempt = "queued", "jobs", 3
		}},
		{"I5", "dead too soon", func(r *run) { r.db.Rows[0].Reason = "worker_lost" }},
		{"I5", "an attempt is missing", func(r *run) { r.db.Attempts = r.db.Attempts[1:] }},
		{"I5", "an attempt too many was spent", func(r *run) { r.db.Rows[0].Attempt = 3 }},
		{"I6", "nobody completed it", func(r *run) { r.remove(13) }},
		{"I6", "an acknowledged completion is undone", func(r *run) { r.db.Rows[0].State, r.db.Rows[0].Table = "queued", "jobs" }},
		{"I6", "ended twice", func(r *run) {
			e := r.event(5)
			e.Kind, e.State = "complete", "completed"
		}},
		{"I6", "completed after its death, and nobody redrove it", func(r *run) { r.event(5).State = "dead_letter" }},
		{"I6", "claimed after its end", func(r *run) { r.event(6).Sent = at(900) }},
		{"I6", "an illegal transition", func(r *run) { r.event(5).State = "completed" }},
		{"I6", "the wrong table", func(r *run) { r.db.Rows[0].State = "dead_letter" }},
		{"I7", "one key, two jobs", func(r *run) { r.event(2).Job = "2" }},
		{"I7", "one key, two bodies", func(r *run) { r.event(2).Body = "other" }},
		{"I7", "a refused submit was stored", func(r *run) {
			r.event(1).Status, r.event(1).Code, r.event(1).Job = 503, "core_unavailable", ""
			r.event(2).Created = at(3)
		}},
		{"I7", "a repeat has another answer", func(r *run) { r.event(9).Answer = "other" }},
		{"I7", "a repeat is refused", func(r *run) { r.event(9).Status, r.event(9).Code = 409, "lease_lost" }},
		{"I8", "more than the burst", func(r *run) { r.db.Buckets[0].Burst = 1 }},
		{"I9", "a cap is exceeded", func(r *run) { r.db.OverCap = []string{"6 active of 5"} }},
		{"I9", "a count is wrong", func(r *run) { r.db.Drift = []string{"count: kept 2, found 1"} }},
		{"I10", "a foreign mark in an answer", func(r *run) { r.event(4).Foreign = []string{invariants.Mark(tenantB, "9")} }},
		{"I10", "a foreign job is claimed", func(r *run) { r.event(4).Mark = invariants.Mark(tenantB, "9") }},
		{"I11", "it began while it waited", func(r *run) { r.db.Edges[0].Resolved = nil }},
		{"I11", "it began before its edge was resolved", func(r *run) { r.db.Edges[0].Resolved = new(at(401)) }},
		{"I11", "it began before its parent had ended", func(r *run) { r.db.Edges[0].ParentEnded = new(at(401)) }},
		{"I11", "it began while its parent ran", func(r *run) { r.db.Edges[0].ParentState, r.db.Edges[0].ParentEnded = "running", nil }},
		{"I11", "it ran after a failure", func(r *run) { r.db.Edges[0].ParentState = "dead_letter" }},
		{"I11", "it is blocked and waits for nothing", func(r *run) { r.db.Edges[0].ChildState, r.db.Edges[0].Started = "blocked", nil }},
		{"I13", "fewer than accepted", func(r *run) { r.db.Rows = r.db.Rows[1:] }},
		{"I13", "more than accepted", func(r *run) { r.db.Rows = append(r.db.Rows, invariants.Row{ID: "3", Tenant: tenantB}) }},
		{"I13", "the metrics differ", func(r *run) { r.db.Counters["completed"] = 3 }},
		{"I14", "goroutines leak", func(r *run) { r.db.Resources[0].After = 26 }},
		{"I14", "a session in a transaction", func(r *run) { r.db.IdleInTransaction = 1 }},
		{"I14", "a key without an end", func(r *run) { r.db.RedisWithoutTTL = []string{"k"} }},
		{"linearizable", "a completed job is read as it was before", func(r *run) { r.event(16).State = "running" }},
		{"linearizable", "a job is read as it will be", func(r *run) { r.event(15).Epoch = 2 }},
		{"linearizable", "a completed job is cancelled", func(r *run) { r.event(17).Status, r.event(17).State = 200, "cancelled" }},
		{"linearizable", "a cancelled job is completed", func(r *run) { // all at the same time, but for the read
			*r.event(17) = invariants.Event{
				Actor: "a", Seq: 17, Op: invariants.OpCancel, Tenant: tenantA, Sent: at(2_900), Done: at(3_250), Status: 200, Job: "2", State: "cancelled", Epoch: 2,
			}
		}},
		{"linearizable", "a job that runs ended before, as its cancel says", func(r *run) {
			e := r.event(17)
			e.Sent, e.Done = at(3_050), at(3_060)
		}},
		{"linearizable", "a heartbeat was not told of an accepted cancel", func(r *run) {
			e := r.event(16)
			e.Op, e.Sent, e.Done, e.State, e.Status = invariants.OpCancel, at(150), at(160), "running", 202
		}},
		{"linearizable", "a lease is lost, and then held", func(r *run) {
			e := r.event(15)
			e.Op, e.Sent, e.Done, e.Lease, e.Epoch = invariants.OpHeartbeat, at(150), at(160), "lost", 2
		}},
		{"linearizable", "two requests at the same time get different jobs for a key", func(r *run) {
			r.event(2).Sent, r.event(2).Job = at(0), "2"
		}},
	} {
		t.Run(test.invariant+" "+test.name, func(t *testing.T) {
			t.Parallel()
			r := good()
			test.spoil(r)
			for _, found := range invariants.Check(r.h, r.db) {
				if strings.HasPrefix(found, test.invariant+":") {
					return
				}
			}
			t.Error("not noticed")
		})
	}
}

// What nobody can know is no violation.
func TestDoubtIsNoViolation(t *testing.T) {
	t.Parallel()
	for name, doubt := range map[string]func(*run){
		"a submit without an answer was stored": func(r *run) {
			e := r.event(3)
			e.Status, e.Job = 0, ""
		},
		"a submit without an answer was not stored": func(r *run) {
			r.h.Events = append(r.h.Events, invariants.Event{
				Actor: "b", Seq: 1, Op: invariants.OpSubmit, Tenant: tenantA, Mark: invariants.Mark(tenantA, "3"), Key: "key3",
			})
		},
		"a completion without an answer took effect": func(r *run) { r.event(13).Status, r.event(13).State = 0, "" },
		"a failure that was repeated after the next claim": func(r *run) {
			e := r.event(5)
			e.Done, e.Status, e.Code, e.State, e.Answer = at(150), 409, "lease_lost", "", ""
		},
		"a claim whose answer was lost": func(r *run) { r.remove(10); r.remove(12) },
		"a cancel at the same time as a completion": func(r *run) {
			e := r.event(17)
			e.Sent, e.Done = at(3_150), at(3_250)
		},
		"a cancel without an answer": func(r *run) {
			e := r.event(17)
			e.Sent, e.Status, e.Code = at(3_050), 0, ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := good()
			doubt(r)
			if found := invariants.Check(r.h, r.db); len(found) > 0 {
				t.Errorf("%s", strings.Join(found, "\n"))
			}
		})
	}
}

// A cap of two live jobs: three submits of which one is refused, a cancel, and a submit that then has room.
func TestLinearCap(t *testing.T) {
	t.Parallel()
	e := func(n int, op, job string, sent, done, status int) invariants.Event {
		event := invariants.Event{Actor: "a", Seq: int64(n), Op: op, Sent: at(sent), Done: at(done), Status: status, Job: job}
		if op == invariants.OpSubmit {
			event.Queue, event.Mark = "q", fmt.Sprint("mark-", n)
		}
		if status == 429 {
			event.Code = "queue_full"
		}
		if op == invariants.OpCancel {
			event.State = "cancelled"
		}
		return event
	}
	const submit, cancel = invariants.OpSubmit, invariants.OpCancel
	for name, test := range map[string]struct {
		legal  bool
		events []invariants.Event
	}{
		"good":                   {true, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "2", 0, 5, 202), e(3, submit, "", 10, 15, 429), e(4, cancel, "1", 20, 25, 200), e(5, submit, "3", 30, 35, 202)}},
		"a cancel while":         {true, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "2", 0, 5, 202), e(4, cancel, "1", 10, 25, 200), e(5, submit, "3", 10, 20, 202), e(6, submit, "", 10, 20, 429)}},
		"one without an answer":  {true, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "", 0, 5, 0), e(3, submit, "", 30, 35, 429)}},
		"it was stored later":    {true, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "", 0, 5, 0), e(3, submit, "3", 30, 35, 202), e(4, cancel, "3", 40, 45, 200)}},
		"it had no room":         {false, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "", 0, 5, 0), e(3, submit, "3", 30, 35, 202)}},
		"one was not stored":     {true, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(9, submit, "", 0, 5, 0), e(3, submit, "3", 30, 35, 202)}},
		"a cancel is not known":  {true, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "2", 0, 5, 202), e(4, cancel, "1", 10, 15, 0), e(5, submit, "3", 30, 35, 202), e(6, cancel, "1", 40, 45, 200)}},
		"it did nothing":         {false, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "2", 0, 5, 202), e(4, cancel, "2", 10, 15, 0), e(5, submit, "3", 30, 35, 202)}},
		"too many":               {false, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "2", 0, 5, 202), e(3, submit, "3", 0, 5, 202)}},
		"refused with room":      {false, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "", 10, 15, 429)}},
		"refused after a cancel": {false, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "2", 0, 5, 202), e(4, cancel, "1", 10, 25, 200), e(6, submit, "", 30, 35, 429)}},
		"a cancel frees one":     {false, []invariants.Event{e(1, submit, "1", 0, 5, 202), e(2, submit, "2", 0, 5, 202), e(3, cancel, "1", 10, 15, 200), e(4, cancel, "1", 20, 25, 200), e(5, submit, "3", 30, 35, 202), e(6, submit, "4", 30, 35, 202)}},
	} {
		db := invariants.Database{Rows: []invariants.Row{{ID: "1", State: "cancelled"}, {ID: "late", Mark: "mark-2"}, {ID: "2"}, {ID: "3", State: "cancelled"}}}
		if found := invariants.LinearCap(invariants.Merge(test.events), db, "q", 2); (len(found) == 0) != test.legal {
			t.Errorf("%s: %q", name, found)
		}
	}
}
