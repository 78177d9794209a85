// Package hop is what the gateway and core say to each other. It belongs to the server and promises nothing to others:
// gateway and core of one commit go together, no others.
//
// Every call is a POST of an Envelope: many callers' requests in one, each item with its own principal. Core answers
// with one result for each item, in order. The body is signed as a whole (package identity).
package hop

import (
	"encoding/json"
	"strings"

	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	// MaxItems bounds an envelope.
	MaxItems = 1000
	// MaxBody bounds a call and its answer, in bytes.
	MaxBody = 64 << 20
	// AssertionWindow is how far the time of a signature may be off, in seconds, either way.
	AssertionWindow = 30
	// TimeoutHeader carries how long the gateway still waits, in milliseconds. It is not signed: a party that can change it
	// could also cut the connection, and at worst a call ends early.
	TimeoutHeader = "Forgequeue-Timeout-Ms"
	// OwnerHeader carries whose call it is, where it is one owner's: so much of core's processors its decoding is charged to. It
	// is not signed: it admits nobody to anything.
	OwnerHeader = "Forgequeue-Owner"
)

// Principal is who calls, as the gateway proved it from the key.
type Principal struct {
	// Kind is tenant, platform or operator.
	Kind string `json:"kind"`
	// Tenant is the tenant's id; empty for platform and operator.
	Tenant string `json:"tenant,omitzero"`
	// User is set for a user-bound key: it acts for, and sees, this user alone.
	User   string   `json:"user,omitzero"`
	Scopes []string `json:"scopes,omitzero"`
	// KeyID is the id of the API key; oidc: and a name for a person who signed in to the console by single sign-on.
	KeyID string `json:"key_id,omitzero"`
}

// PersonPrefix begins the KeyID of a person: no key's id has a colon.
const PersonPrefix = "oidc:"

// IsPerson says that the caller is a person, who signed in by single sign-on, and no API key.
func (p Principal) IsPerson() bool {
	return p.Kind == PrincipalTenant && strings.HasPrefix(p.KeyID, PersonPrefix)
}

// Kinds of a principal.
const (
	PrincipalTenant   = "tenant"
	PrincipalPlatform = "platform"
	PrincipalOperator = "operator"
)

// Item is one caller's request.
type Item[T any] struct {
	Principal     Principal `json:"principal"`
	RequestID     string    `json:"request_id,omitzero"`
	CorrelationID string    `json:"correlation_id,omitzero"`
	Traceparent   string    `json:"traceparent,omitzero"`
	// Shared says of a submit that other tenants' travel in the same envelope and wait
	// for its answer: core answers RetryUnbatched where it would have to wait for the tenant.
	Shared  bool `json:"shared,omitzero"`
	Request T    `json:"request"`
}

// Envelope is the body of every internal call.
type Envelope[T any] struct {
	Items []Item[T] `json:"items"`
}

// Result is one item's answer: a value with its status, or a problem.
type Result[T any] struct {
	Status int `json:"status"`
	// Replayed says that an Idempotency-Key's remembered answer was given again.
	Replayed bool `json:"replayed,omitzero"`
	// RetryUnbatched says that nothing was done: the item is to come again in an envelope of its
	// tenant's own. Only an item that was Shared is answered so, with no value.
	RetryUnbatched bool             `json:"retry_unbatched,omitzero"`
	Value          *T               `json:"value,omitzero"`
	Problem        *problem.Problem `json:"problem,omitzero"`
}

// Results answers an Envelope.
type Results[T any] struct {
	Results []Result[T] `json:"results"`
}

// Idempotency names a request so that its repeat gets the same answer.
type Idempotency struct {
	// Operation is the route, so that one key may serve two kinds of request.
	Operation string `json:"operation"`
	Key       string `json:"key"`
	// Fingerprint is the SHA-256 of the canonical body, in hex.
	Fingerprint string `json:"fingerprint"`
}

// SubmitResponse is the public answer to a submit, ready to be sent: of a job, a batch or a workflow. It is opaque so
// that a replay gives back the very bytes that were stored.
type SubmitResponse = json.RawMessage
