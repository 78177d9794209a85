package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
)

// stream passes a job's events on, as the API has them, for the key of the session. It ends with the session.
func (c *Console) stream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := c.entered(w, r)
		if !ok {
			return
		}
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		switch {
		case v.Session.Person != nil: // the browser opens it again, which checks the person's groups
			ctx, stop = context.WithTimeout(ctx, max(v.Checked.Due.Sub(c.Now()), 0))
			defer stop()
		case !v.Session.Operator:
			defer c.hold(ctx, v.Who.KeyID, v.Session.Before, stop)()
		}
		header := http.Header{}
		// A page has output until after; what its browser had last is later.
		if last := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")); last != "" {
			header.Set("Last-Event-ID", last)
		}
		c.pass(ctx, v, header, "")
	})
}

// output passes a job's output on: as text, and with after what came after that chunk for the page's script.
func (c *Console) output() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := c.entered(w, r)
		if !ok {
			return
		}
		header, query := http.Header{"Accept": {"text/plain"}}, ""
		if after := r.URL.Query().Get("after"); after != "" {
			header, query = http.Header{}, url.Values{"after": {after}}.Encode()
		}
		c.pass(r.Context(), v, header, query)
	})
}

// entered begins a visit of who is signed in, and leaves the session as it is. It has answered all others.
func (c *Console) entered(w http.ResponseWriter, r *http.Request) (v *visit.Visit, ok bool) {
	v = c.Visit(w, r)
	of, err := c.Sealer.FromRequest(r, c.Now())
	if err != nil {
		v.Fail(v.ToSignIn())
		return v, false
	}
	if err = v.Resume(of); err != nil {
		v.Fail(err)
	}
	return v, err == nil
}

// pass has the API answer a visit as it comes, and not read by the client: the API's path is that of the page.
func (c *Console) pass(ctx context.Context, v *visit.Visit, header http.Header, query string) {
	asked := v.Request.Clone(ctx)
	asked.URL = &url.URL{Path: apiPath(v.Request.URL.Path), RawPath: apiPath(v.Request.URL.RawPath), RawQuery: query}
	asked.Header = header
	c.API.ServeHTTP(v.Response, v.Transport.Request(ctx, asked))
}

// apiPath is the API's path of what a page of the console is about.
func apiPath(page string) string {
	if rest, ok := strings.CutPrefix(page, "/console/"); ok {
		return "/v1/" + rest
	}
	return ""
}
