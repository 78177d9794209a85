// Package inner asks the gateway's own API in this process, on behalf of a request that came from outside. So what is built on the API
// has its authentication, scopes, limits and texts, and no other way to the data.
package inner

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
)

// Request is a client's request as a server gets it: for the host, and from the address, of the one from outside.
func Request(ctx context.Context, r, outside *http.Request) *http.Request {
	inner := r.Clone(ctx)
	inner.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	inner.Host, inner.RequestURI, inner.RemoteAddr = outside.Host, inner.URL.RequestURI(), outside.RemoteAddr
	for _, name := range []string{"X-Forwarded-For", "Forwarded"} { // the API knows which of them to trust
		if given := outside.Header.Values(name); len(given) > 0 {
			inner.Header[name] = given
		}
	}
	return inner
}

// Ask gives the API's answer to a request; a refusal is an answer too.
func Ask(api http.Handler, r *http.Request) *Answer {
	answer := &Answer{header: http.Header{}}
	api.ServeHTTP(answer, r)
	return answer
}

// Answer is what the API writes, kept in memory. It is the http.ResponseWriter of Ask.
type Answer struct {
	Status int
	Body   bytes.Buffer

	header http.Header
}

// Header is the answer's.
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader keeps the first final status.
func (a *Answer) WriteHeader(status int) {
	if a.Status == 0 && status >= http.StatusOK {
		a.Status = status
	}
}

// Write keeps the text.
func (a *Answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.Body.Write(p)
}
