// Package request reads what a client sent, strictly, and knows no router.
//
//	json.go             JSON: unknown and duplicate members are refused at every depth
//	body.go, memory.go  bodies, within the memory that there is for all of them
//	query.go            parameters, each by its rule
//	headers.go          Authorization, and what lists and quoted strings are
//	prefer.go           Prefer: wait=n (RFC 7240)
//	conditional.go      ETag and If-None-Match (RFC 9110)
//	idempotency_key.go  Idempotency-Key, and in fingerprint.go whether two bodies are the same
//	client_address.go   the address that a request came from, behind proxies
//
// What it refuses is a *problem.Problem that names the field, or an error of its own.
package request
