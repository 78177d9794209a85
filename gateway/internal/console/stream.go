package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// stream passes a job's events on, as the API has them, for the key of the session. It ends with the session.
func (c *Console) stream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		of, err := c.sealer.FromRequest(r, c.now())
		if err != nil {
			v.fail(v.toSignIn())
			return
		}
		v.session = of
		if err = v.use(of.Key); err == nil {
			err = v.stillSignedIn()
		}
		if err != nil {
			v.fail(err)
			return
		}
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		if !of.Operator {
			defer c.hold(ctx, v.who.KeyID, of.Before, stop)()
		}
		// Passed on as it comes, and not read by the client: the API's path is that of this page.
		events := v.r.Clone(ctx)
		events.URL = &url.URL{Path: apiPath(v.r.URL.Path), RawPath: apiPath(v.r.URL.RawPath)}
		events.Header = http.Header{}
		c.api.ServeHTTP(w, v.transport.request(ctx, events))
	})
}

// apiPath is the API's path of what a page of the console is about.
func apiPath(page string) string {
	if rest, ok := strings.CutPrefix(page, "/console/"); ok {
		return "/v1/" + rest
	}
	return ""
}
