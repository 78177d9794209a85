// Package httpapi is the public door: routes, and what stands between a request
// and its handler.
//
//	request ─▶ observe        id, panic, log line, metrics        (observe.go)
//	        ─▶ limitAddress   whose address, how much of it       (address.go)
//	        ─▶ limitHeaders   16 KiB                              (observe.go)
//	        ─▶ route          404, 405                            (server.go)
//	        ─▶ handle         failed keys, credential, access,    (handle.go)
//	                          query, headers, body, strict JSON
//	        ─▶ charge         one Admit: rates and full caps      (charge.go)
//	        ─▶ a handler      a function from request to reply    (a file for each resource)
//	        ─▶ send           one signed call to core             (send.go)
//	        ◀─ reply or error; errors become problems in one table (errors.go)
//
// It is the only package that knows gin, and *gin.Context never reaches a
// handler. Headers are read by name: what a client says of its identity in any
// header but Authorization is read by nobody, and the hop sends none of it.
package httpapi
