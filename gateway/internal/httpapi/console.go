package httpapi

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// mountConsole serves the console behind the same middleware as the API: it has the request's id, the limit of the
// client's address, the log line and the metric.
func mountConsole(engine *gin.Engine, console http.Handler) {
	serve := func(g *gin.Context) {
		defer func() {
			// The console's mux has noted the pattern of its page: a bounded number of names.
			_, path, _ := strings.Cut(g.Request.Pattern, " ")
			g.Set(routeKey, strings.TrimSuffix(path, "{$}"))
		}()
		console.ServeHTTP(g.Writer, g.Request)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		engine.Handle(method, "/console", serve)
		engine.Handle(method, "/console/*page", serve)
	}
}
