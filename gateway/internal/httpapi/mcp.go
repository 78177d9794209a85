package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/gateway/internal/mcp"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// mountMCP serves agents at /mcp, which use the API by served. A message is checked and charged as a request to the API is; the requests
// of its tools are again.
func (s *Server) mountMCP(engine *gin.Engine, served http.Handler) {
	rules := map[string]access{}
	for _, r := range s.all() {
		rules[r.method+" "+r.path] = r.access
	}
	agents, err := mcp.New(mcp.Options{
		API: served, Mode: s.mcp, Logger: s.logger,
		Allows: func(who hop.Principal, method, path string) bool { return rules[method+" "+path].admit(who) == nil },
	})
	if err != nil {
		panic(err) // the API's document is in the binary, and a test has all tools
	}
	r := route{method: http.MethodPost, path: "/mcp", access: anyTenantKey, body: body, cost: perRequest}
	engine.Handle(r.method, r.path, func(g *gin.Context) {
		g.Set(routeKey, r.path)
		if err := s.serveMCP(g, r, agents); err != nil {
			refuse(g, err)
		}
	})
}

func (s *Server) serveMCP(g *gin.Context, r route, agents *mcp.Handler) error {
	if s.foreign(g.Request) {
		return problem.New(problem.Forbidden, "A page of another origin may not use /mcp.")
	}
	c, err := s.admit(g, r)
	defer c.Body.Release()
	if err != nil {
		return err
	}
	var text json.RawMessage
	leave, err := s.receive(g, c, r, &text)
	if err != nil {
		return err
	}
	leave()
	if len(text) == 0 || text[0] != '{' { // a batch would be charged as one message
		return problem.Invalid(problem.FieldError{Field: "body", Message: "must be a JSON object: one JSON-RPC message"})
	}
	showLimits(c, g.Writer.Header())
	agents.Serve(g.Writer, &mcp.Message{
		Request: g.Request, Text: text, From: c.Principal(), CorrelationID: c.CorrelationID, Traceparent: c.Traceparent,
	})
	return nil
}

// foreign says whether a browser sends a request for a page of another origin. The page's host alone proves nothing: its name may have
// become one of this machine's addresses (DNS rebinding). So it has to be the public URL's, or no name that others can give.
func (s *Server) foreign(r *http.Request) bool {
	given := r.Header["Origin"]
	if len(given) == 0 {
		return false // no browser
	}
	origin, err := url.Parse(given[0])
	if err != nil || len(given) > 1 || origin.Host == "" {
		return true
	}
	if public, err := url.Parse(s.publicURL); err == nil && strings.EqualFold(fmt.Sprint(public.Scheme, "://", public.Host), given[0]) {
		return false
	}
	_, noAddress := netip.ParseAddr(origin.Hostname())
	return !strings.EqualFold(origin.Host, r.Host) || noAddress != nil && !strings.EqualFold(origin.Hostname(), "localhost")
}
