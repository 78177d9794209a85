package outbox

import (
	"context"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// stopTime is how long a batch in flight may take to end after ctx has. What is then cut off is repeated by another
// relay.
const stopTime = 8 * time.Second

// process sends a batch and records what became of it, within its lease. It goes on when ctx has ended.
func (r *Relay) process(ctx context.Context, b *batch) {
	whole, cancel := context.WithDeadline(context.WithoutCancel(ctx), b.until)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		_ = wait.For(whole, stopTime)
		cancel()
	})
	defer stop()
	j, ok := r.outcome(whole, b)
	if !ok {
		return
	}
	r.note(ctx, b, j)
	// A record that fails costs a repeat of the batch, after the lease: try for as long as that is.
	for failures := 0; ; failures++ {
		err := within(whole, func(ctx context.Context) error { return r.o.Table.record(ctx, b, j, r.o.Retain) })
		if err == nil {
			r.count(ctx, j)
			return
		}
		r.failure(whole, "record", err)
		if wait.For(whole, backoff(failures)) != nil {
			return
		}
	}
}

// outcome is what becomes of a batch; false if another relay has to find out.
func (r *Relay) outcome(ctx context.Context, b *batch) (judgment, bool) {
	if b.expired {
		return refuseAll(b, Refusal{
			Code:   "outcome_unknown",
			Detail: "An answer was lost, and the server may have forgotten the Idempotency-Key since. Look whether the job is there, then retry or discard the row.",
		}), true
	}
	if unreadable := b.decode(); len(unreadable) > 0 {
		if b.tries > 1 { // made by a relay that can read them
			return judgment{kind: kept, wait: r.o.Lease, unknown: b.unknown, err: unreadable[0].why.Detail}, true
		}
		if !r.setAside(ctx, b, unreadable) {
			return judgment{}, false
		}
	}
	if len(b.rows) == 0 {
		return judgment{kind: ended}, true
	}
	return r.send(ctx, b)
}

// setAside takes rows out of a batch that was not sent yet.
func (r *Relay) setAside(ctx context.Context, b *batch, unreadable []verdict) bool {
	aside := judgment{kind: ended, verdicts: unreadable}
	if err := within(ctx, func(ctx context.Context) error { return r.o.Table.setAside(ctx, b, unreadable) }); err != nil {
		r.failure(ctx, "record", err)
		return false // nothing was sent: the lease ends, and the batch is claimed again
	}
	r.note(ctx, b, aside)
	r.count(ctx, aside)
	b.rows = slices.DeleteFunc(b.rows, func(one row) bool {
		return slices.ContainsFunc(unreadable, func(v verdict) bool { return v.row.id == one.id })
	})
	return true
}

// send makes the request, within the lease: what comes later is another relay's.
func (r *Relay) send(ctx context.Context, b *batch) (judgment, bool) {
	left := time.Until(b.until)
	if left < r.o.Lease/2 { // a process that was stopped, or a database that was slow
		return judgment{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, left-r.o.Lease/4) // the rest is for the record
	defer cancel()
	var connections atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connections.Add(1) }})
	request := api.BatchRequest{Jobs: make([]api.SubmitRequest, len(b.rows))}
	for i := range b.rows {
		request.Jobs[i] = b.rows[i].job
	}
	answer, err := r.o.Client.SubmitBatch(ctx, request, client.WithIdempotencyKey(b.key()), client.WithOneTry())
	got := connections.Load() // more than one: net/http has repeated it
	answered := err == nil || client.Status(err) != 0
	j := judge(b, answer, err, got == 0 || got == 1 && answered)
	j.asked = true
	return j, true
}

// note opens or closes the gate, and logs what changes by that.
func (r *Relay) note(ctx context.Context, b *batch, j judgment) {
	for _, v := range j.verdicts {
		if v.kind == refused {
			r.o.Logger.ErrorContext(ctx, "row failed", "row", v.row.id, "code", v.why.Code, "status", v.why.Status, "detail", v.why.Detail, "request_id", v.why.RequestID)
		}
	}
	if !j.asked {
		return
	}
	if !j.halt {
		r.requests.Add(1)
		if r.gate.open() {
			r.o.Logger.InfoContext(ctx, "the server takes jobs again")
		}
		return
	}
	r.errs.Add(1)
	pause, first := r.gate.close(j.wait)
	switch {
	case j.misconfigured:
		r.o.Logger.ErrorContext(ctx, "the server does not take jobs from this relay; nothing is lost, and it is tried again", "error", j.err, "wait_ms", pause.Milliseconds(), "rows", len(b.rows))
	case first:
		r.o.Logger.WarnContext(ctx, "the server takes no jobs for now", "error", j.err, "wait_ms", pause.Milliseconds(), "rows", len(b.rows))
	}
}

// count adds up what was recorded.
func (r *Relay) count(_ context.Context, j judgment) {
	for _, v := range j.verdicts {
		switch v.kind {
		case accepted:
			r.sent.Add(1)
		case refused:
			r.failed.Add(1)
		default:
			r.postponed.Add(1)
		}
	}
}
