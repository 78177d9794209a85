// Package httpapi is the public HTTP API: the routes (routes.go), and what comes before
// and after a handler.
//
//	request ─▶ observe        id, panic, log line, metrics         (observe.go)
//	        ─▶ limitAddress   client address, and its rate         (limits.go)
//	        ─▶ limitHeaders   16 KiB                               (limits.go)
//	        ─▶ route          404, 405                             (server.go)
//	        ─▶ handle         credential, access, query, headers,  (handle.go, access.go)
//	                          rates, body, strict JSON
//	        ─▶ a handler      a function from request to response  (package handlers)
//	        ◀─ respond        response or error                    (respond.go)
//
// Errors become problems in one table (errors.go), what admission refused in refusals.go.
//
// It is the only package that uses gin, and *gin.Context never leaves it. Headers are
// read by name: a client's claims of an identity in any header but Authorization are not
// read, and not passed to core.
package httpapi
