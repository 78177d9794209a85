// Package handlers has the operations of the public API: functions from a request to a
// response, one file for each resource. When they are called, the caller is
// authenticated and may make the call, and its JSON is well-formed. A handler validates
// the request's content, and asks core. What submits jobs or reports of leases is two functions: the first validates the
// request, and says what it costs; the second asks core once that was charged.
//
//	submit.go        jobs are submitted, one or many
//	jobs.go          they are listed, read, waited for, cancelled
//	signals.go       signals from outside
//	rerun.go         one that has ended is submitted again
//	events.go        streams follow one, see package jobevents
//	claims.go        workers claim them,
//	workers.go       keep their leases,
//	outcomes.go      and report how they ended
//	schedules.go     schedules submit them
//	types.go         types say what they look like, payloads.go checks it
//	workflows.go     graphs of jobs
//	queues.go  dead_letters.go  webhooks.go  stats.go  audit.go
//	caller.go  own_keys.go                            the caller's key, its limits, its tenant's keys
//	tenants.go  keys.go  plans.go                      for the operator
//	wait.go                                           calls that wait for a change
//
// Package call has what a handler gets and gives, and how core is asked.
//
// The annotations in the comments are OpenAPI's, see openapi.go in httpapi.
package handlers

import (
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/jobevents"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// Options of Handlers.
type Options struct {
	Auth    *auth.Authenticator
	Core    *coreclient.Client
	Types   *jobtype.Checker
	Limiter *admission.Limiter
	// Processors are the seats of the gateway's processors.
	Processors *seats.Seats
	// KeySecret and KeyEnv are for keys that are made here.
	KeySecret []byte
	KeyEnv    string
	// PublicURL is how people reach the gateway, without a path; empty: as the request did. LinkPath is the path of links that send
	// signals, without their token.
	PublicURL, LinkPath string
	// Timeout is how long core may take, beyond what the caller asks to wait.
	Timeout time.Duration
}

// Handlers are the operations. They are safe for concurrent use.
type Handlers struct {
	auth       *auth.Authenticator
	core       *call.Core
	types      *jobtype.Checker
	limiter    *admission.Limiter
	processors *seats.Seats
	keySecret  []byte
	keyEnv     string
	publicURL  string
	linkPath   string
	streams    *jobevents.Streams
}

// New makes Handlers.
func New(o Options) *Handlers {
	core := &call.Core{Client: o.Core, Timeout: o.Timeout}
	return &Handlers{
		auth: o.Auth, core: core, types: o.Types, limiter: o.Limiter, processors: o.Processors,
		keySecret: o.KeySecret, keyEnv: o.KeyEnv, publicURL: o.PublicURL, linkPath: o.LinkPath,
		streams: jobevents.New(o.Auth, core),
	}
}
