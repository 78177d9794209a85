package httpapi

import (
	"fmt"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// limitHeaders refuses what net/http, which allows more, let through.
func limitHeaders(g *gin.Context) {
	if len(g.Request.TransferEncoding) > 0 {
		// There may have been a Content-Length too, which net/http has dropped: the
		// connection must not be used again (RFC 9112, section 6.1).
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

// limitAddress finds out where a request comes from, and refuses it where too
// many do, before anything else of it is looked at.
func (s *Server) limitAddress(g *gin.Context) {
	c := callOf(g)
	var attributed bool
	c.address, attributed = s.proxies.ClientAddress(g.Request.RemoteAddr, g.Request.Header)
	if isProbe(g.FullPath()) {
		return
	}
	if err := s.addresses.Admit(c.address, attributed); err != nil {
		refuse(g, err)
		g.Abort()
	}
}

// isProbe says whether a route is asked by those who decide whether this gateway
// gets requests at all: a flood must not make it look dead. It costs next to
// nothing.
func isProbe(route string) bool { return route == "/livez" || route == "/readyz" }
