package httpapi

import (
	"fmt"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// limitHeaders refuses headers above our limit; net/http's own is higher.
func limitHeaders(g *gin.Context) {
	if len(g.Request.TransferEncoding) > 0 {
		// There may have been a Content-Length too, which net/http has dropped: the
		// connection must not be reused (RFC 9112, section 6.1). So each chunked request
		// costs its client a new connection; clients.md says so.
		g.Header("Connection", "close")
	}
	size := len(g.Request.RequestURI) + len(g.Request.Host)
	for name, values := range g.Request.Header {
		for _, value := range values {
			size += len(name) + len(": \r\n") + len(value)
		}
	}
	if size > api.MaxHeaders {
		refuse(g, problem.New(problem.HeadersTooLarge, fmt.Sprintf("The path, query and headers may have at most %d bytes together.", api.MaxHeaders)))
		g.Abort()
	}
}

// limitAddress determines the client address of a request, and refuses it above the
// rate of that address, before anything else of it is read.
func (s *Server) limitAddress(g *gin.Context) {
	c := callOf(g)
	var attributed bool
	c.Address, attributed = s.proxies.ClientAddress(g.Request.RemoteAddr, g.Request.Header)
	if isProbe(g.FullPath()) {
		return
	}
	if err := s.addresses.Admit(c.Address, attributed); err != nil {
		refuse(g, err)
		g.Abort()
	}
}

// isProbe says whether a route is a health probe of a load balancer or orchestrator: a
// flood must not make the gateway appear dead. It costs next to nothing.
func isProbe(route string) bool { return route == "/livez" || route == "/readyz" }
