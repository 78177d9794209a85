// Package client calls ForgeQueue's public HTTP API from Go.
//
//	type Email struct {
//		To string `json:"to"`
//	}
//
//	func (Email) JobType() string { return "email" }
//
//	c, err := client.FromEnv() // FORGEQUEUE_URL, FORGEQUEUE_API_KEY
//	job, err := client.Submit(ctx, c, Email{To: "ada@example.com"})
//	receipt, err := client.Wait[Receipt](ctx, c, job.ID)
//
// or both in one, and for a job that ends soon in one request:
//
//	receipt, err := client.SubmitAndWait[Receipt](ctx, c, Email{To: "ada@example.com"})
//
// [SubmitMany] takes any number of arguments. Their type may have options of its jobs
// ([JobArgsWithOptions]), and each call its own ([JobOptions]). These functions make
// requests for the methods of the same names, which take payloads as JSON:
//
//	job, err := c.Submit(ctx, api.SubmitRequest{Type: "email", Payload: payload})
//	done, err := c.Wait(ctx, job.ID)
//
// Jobs that come after each other are a workflow: [Workflow] collects them,
// [Client.SubmitWorkflow] stores all or none, [Client.WaitForWorkflow] waits.
//
// # Around each submit
//
// [Options] has a Logger, which gets repeats and warnings, and Middleware, functions
// around every call that submits jobs. Package otelforgequeue has one that makes spans.
//
// # Repeats
//
// A call is tried up to four times, within ctx's deadline. Which calls are repeated
// depends on the server's contract:
//
//   - reads, registrations, heartbeats, outcomes, cancels and changes of a job, a
//     queue, a tenant or a plan are repeatable by contract;
//   - submits are, those of workflows included, because each carries an
//     Idempotency-Key: one of its own (at least 128 random bits), or the one given
//     with WithIdempotencyKey;
//   - claims, redrives, discards and the making of tenants and keys are not. They are
//     tried again only when the connection could not be made, so that nothing was written.
//
// A repeatable call is tried again after a broken connection, a try without an
// answer, 429, 502, 503, 504, and 409 idempotency_in_flight (the first try is
// still being worked on). The wait between tries is drawn evenly from 0 to a
// bound that doubles ("full jitter"), plus the server's retry_after_ms or
// Retry-After. If that is more than a minute, or longer than ctx lasts, the
// problem is returned at once.
//
// A retry budget keeps many callers from overloading a server that is down: a
// retry costs one token, a call earns a tenth of one, and it starts with ten. A 429
// with a Retry-After is free: that server is healthy, and has said when to retry.
//
// # Errors
//
// What the server refuses is a [problem.Problem]; find it with errors.As or
// problem.From. An answer that is no problem document is a [StatusError].
// [Status] gives the status of either. All else is an error of the network or
// of ctx.
package client
