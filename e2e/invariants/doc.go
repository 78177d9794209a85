// Package invariants records what clients of a run saw and judges it, together
// with the database once that is quiet, by the table in RELIABILITY.
//
//	clients ──▶ Recorder (an http.RoundTripper) ──▶ the gateway
//	               │ every request before it is sent, every answer before it is used
//	               ▼
//	            Events, in memory or as JSON lines of a process that may be killed
//	               │ Merge
//	               ▼
//	            History ─┐
//	                     ├─▶ Check ─▶ violations, as text
//	Read ─▶ Database ────┘
//
// The last of them, Linear, gives each key's and each job's requests to Porcupine, which looks for an order in which one
// machine could have answered them.
//
// A request without an answer may or may not have taken effect: the predicates
// allow both, and nothing else. Every one of them has a test that makes it fail.
package invariants
