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
		v := c.Visit(w, r)
		of, err := c.Sealer.FromRequest(r, c.Now())
		if err != nil {
			v.Fail(v.ToSignIn())
			return
		}
		v.Session = of
		if err = v.UseKey(of.Key); err == nil {
			err = v.StillSignedIn()
		}
		if err != nil {
			v.Fail(err)
			return
		}
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		if !of.Operator {
			defer c.hold(ctx, v.Who.KeyID, of.Before, stop)()
		}
		// Passed on as it comes, and not read by the client: the API's path is that of this page.
		events := v.Request.Clone(ctx)
		events.URL = &url.URL{Path: apiPath(v.Request.URL.Path), RawPath: apiPath(v.Request.URL.RawPath)}
		events.Header = http.Header{}
		c.API.ServeHTTP(w, v.Transport.Request(ctx, events))
	})
}

// apiPath is the API's path of what a page of the console is about.
func apiPath(page string) string {
	if rest, ok := strings.CutPrefix(page, "/console/"); ok {
		return "/v1/" + rest
	}
	return ""
}
