// Package worker runs handlers for ForgeQueue's jobs, over HTTP.
//
//	w, err := worker.New(worker.Options{Client: c, Queues: []string{"default"}})
//	worker.Add(w, func(ctx context.Context, job *worker.Job[Greeting]) (Reply, error) {
//		return Reply{Text: "Hello, " + job.Payload.Name}, nil
//	}, worker.WithTimeout(time.Minute))
//	err = w.Run(ctx) // until ctx ends
//
// Greeting names the type of its jobs ([client.JobArgs]); [Handle] takes the type as a text.
// [WithTimeout], [WithRetry] and [WithConcurrency] are of one handler, middleware
// ([Worker.Use]) is around all.
//
// [Worker.RunUntilSignal] is Run for a program of its own. Package workertest runs
// handlers without a server.
//
// # How it works
//
//	      claim loop (Run's own goroutine)                  heartbeats (one goroutine)
//	      free slots, and ahead ▶ POST /v1/claims            every ≤ 10 s, all leases in one call
//	             │ jobs                                          │ ok: longer   │ cancel, lost
//	             ▼                                               ▼              ▼
//	┌─ attempt (a goroutine each) ──────────────┐        ┌─ leases held ─────────────┐
//	│ lease ─────────────────────────────────── │ ─────▶ │ token → length, cancel    │
//	│ handler, in a goroutine of its own        │ ◀───── │ cancels the handler's ctx │
//	│ the slot is free                          │ cause  └───────────────────────────┘
//	│ decide: complete, fail, snooze, wait, … ─ │ ─────▶ ┌─ outbox (one goroutine) ──┐
//	│ wait until it is answered; one log line   │ ◀───── │ one request under way     │
//	└───────────────────────────────────────────┘ answer └───────────────────────────┘
//
// # Jobs claimed ahead
//
// While there is a backlog and handlers take less than 100 ms on average, the worker claims what its slots will do in the
// next 50 ms, ten jobs a slot at most, so that they do not wait for claims. Such a job has a lease. One that gets no slot
// within 80 ms is released, which spends no attempt: no job waits behind a slow handler for longer. Where handlers take
// longer, or the last claim got less than it asked for, jobs are claimed for free slots alone.
//
// # How it stops
//
// It claims no more. Handlers go on for the grace, then their contexts end and their
// jobs are released. When all is answered the worker deregisters (DELETE
// /v1/workers/{worker_id}): it is no longer listed, and what it could not release
// is returned. So a WorkerID must not be shared. A worker that is killed turns STALE
// and DEAD, and its leases run out.
//
// # How outcomes are sent
//
// One request is under way at a time, and the outcomes that come during it share
// the next one (POST /v1/outcomes, up to 1000 and 8 MiB). An idle worker's outcome
// is sent at once. Each has its own answer. A request that is refused or fails as a
// whole because of its content is halved until the invalid outcome is alone. Outcomes
// without an answer are sent again, the same bytes, for which the server gives the
// same answer; until a lease length after the lease's end, when it has no effect.
//
// # A handler's context
//
// It ends with a cause (context.Cause): [ErrLeaseLost], [ErrCancelRequested],
// [ErrTimeout] (timeout_ms, counted from the claim's arrival, or [WithTimeout], from the
// handler's start) or [ErrStopping].
// A handler should return soon after; it keeps its slot until it does. What it
// then returns still counts where it can: a success is sent whatever the cause,
// and the server's fence decides.
//
// # What a handler's return becomes
//
//	result, nil             complete
//	error                   fail: retried after what WithRetry says, or with the job's backoff
//	RetryAfter(err, d)      fail: retried after d
//	Permanent(err)          fail: never retried
//	Snooze(d)               snooze: back after d, the attempt is not spent; what it is wrapped with is the job's last error
//	Throttled(err, name, d) snooze, and the budget is closed for d for all jobs
//	Wait(d, signals...)     wait: run again when a signal comes or d is over, the attempt is not spent
//	a panic                 fail, type "panic", with the stack
//	payload not an In       fail, type "payload", permanent
//	result not fit to send  fail, type "result", permanent
//	error, and ErrTimeout   fail, type "timeout"
//	error, and ErrStopping  release: back at once, the attempt is not spent
//	error, and ErrLeaseLost nothing: another attempt may already run
//
// # Jobs after other jobs
//
// A job that came after others is claimed once they have ended. Its Workflow and
// After say which ones; [Info.Parents] reads their results from the server.
//
// # Jobs that wait for signals
//
// A handler that returns [Wait] has its job wait for a signal from outside (client.Signal, or a link of
// client.CreateSignalLink). The job takes no slot meanwhile. Then the handler is run again from the beginning, so it looks at WokenBy,
// [Info.Signal] and the checkpoint ([Info.Restore]) to see where it is.
//
// # What a job says
//
// [Info.Output], [Info.ErrOutput] and [Info.Logf] write to the job's output, which others read while it runs. It is gathered, and
// sent by a goroutine that is there only while there is something to send: one request at a time, within a quarter of a second. The rest
// is sent before the outcome, for at most 3 s. No handler waits for it, and none fails because of it.
//
// # What an error's type is
//
// A failure is stored with a type, by which a list of dead letters can be read. It
// is what the error says of itself with a method ErrorType() string; else the Go
// type of the outermost error that has one of its own, such as "fs.PathError" or
// "main.DeclinedError", found through wrapping and joining in the order of
// errors.Is; else "error": errors.New, fmt.Errorf and errors.Join make errors
// without a type to tell. The worker's own are "panic", "goexit", "timeout",
// "cancelled", "payload", "result", "submit", "signal" and "wait".
//
// # The log line of an attempt
//
// One line, "attempt", with job_id, type, queue, attempt, outcome (completed,
// failed, snoozed, waiting, released, lost, unsent), duration_ms and error. If they have a
// value there are also permanent=true (the handler wants no retry), delay_ms and
// reason (of a snooze), timeout_ms and reason (of a wait), and the server's answer: state, run_at, dead_reason. A
// completed, snoozed or waiting attempt is INFO, one that failed WARN, one whose outcome could
// not be sent ERROR.
//
// # Types without a handler
//
// A worker claims the types that have a handler, and only those: a job of another
// type waits for a worker that has one, and GET /v1/queues/{name} shows its type in
// unserved. With [Worker.HandleAny], or with more than 100 handlers, it claims all
// types. A job whose type then has no handler is snoozed for 30 s, with a WARN, and
// shows it as its last error, of type "no_handler".
//
// # How long a lease lasts
//
// The local clock may be hours off. So the worker only uses a length: the lease_ms in the answers to the claim and to
// each heartbeat, which the database has computed. It is measured by the local monotonic clock, from the answer to the
// claim and from before each heartbeat. Heartbeats are sent at a third of the shortest length, and at least every 10 s.
//
// While heartbeats are answered only the server decides that a lease is lost. While
// they are not, a lease counts as lost once its length has passed.
package worker
