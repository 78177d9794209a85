// Package workertest runs a handler without a server, to see what becomes of a job.
//
//	func TestWelcome(t *testing.T) {
//		got := workertest.Run(t.Context(), Welcome, Account{Email: "ada@example.com"}, workertest.WithAttempt(2))
//		if !got.Completed() || got.Result.Sent != 1 {
//			t.Errorf("Welcome: %v", got)
//		}
//	}
//
// The code that runs is the worker's own ([worker.Worker.Attempt]): the input is
// written as JSON and read again, middleware wraps the handler, timeout_ms ends its
// context, a panic becomes a failed attempt, and what is returned becomes the very
// outcome that the server would be sent. Only the claim, the heartbeats and the
// sending are left out.
//
// [Run] takes one handler function; [RunWorker] a whole worker, as the program
// makes it, for which [Client] is a client of no server. Each call is one attempt.
// [WithAttempt] says which one. Time is that of testing/synctest: inside a bubble the
// clock is the test's, and timeouts, CancelAfter and a handler's waits pass in no time.
package workertest
