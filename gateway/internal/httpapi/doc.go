// Package httpapi is the public HTTP API: the routes (routes.go), and what comes before
// and after a handler.
//
//	request ─▶ observe        id, panic, log line, metrics         (observe.go)
//	        ─▶ limitAddress   whose address, how much of it        (limits.go)
//	        ─▶ limitHeaders   16 KiB                               (limits.go)
//	        ─▶ route          404, 405                             (server.go)
//	        ─▶ handle         credential, access, query, headers,  (handle.go, access.go)
//	                          rates, body, strict JSON
//	        ─▶ a handler      a function from request to response  (package handlers)
//	        ◀─ respond        response or error                    (respond.go)
//
// Errors become problems in one table (errors.go), what admission refused in refusals.go.
//
// It is the only package that knows gin, and *gin.Context never leaves it. Headers are
// read by name: what a client says of its identity in any header but Authorization is
// read by nobody, and core gets none of it.
package httpapi
