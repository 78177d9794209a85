// Package wire is the HTTP side of `forgequeue-bench`: it writes requests to submit, claim and complete
// jobs, and reads their answers, for little CPU time.
//
// An [Endpoint] is one of the two APIs that take load: the gateway's public one (gateway.go) or core's
// internal one (core.go). A [Link] is one sender's connection to it.
//
// The generator shares the machine with what it measures. So requests are written from bodies made before,
// over one HTTP/1.1 connection for each sender, and answers are searched for the few members that are needed
// instead of decoded. Only an answer that reports a problem is decoded whole.
package wire
