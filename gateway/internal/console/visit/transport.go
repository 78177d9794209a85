package visit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// transport serves the API's client from the API's own handler, in this process, on behalf of one request of a browser.
type transport struct {
	api http.Handler
	// key is empty where nobody is signed in.
	key string
	// browser is the request that this is done for: its address counts.
	browser *http.Request
	// correlation is the id by which the log lines of a page's calls are found.
	correlation string
	// shared is what open pages of the same key have read; nil where each read is a fresh one.
	Shared *liveReads
}

// UseKey makes the calls of the visit those of a key.
func (v *Visit) UseKey(key string) (err error) {
	v.Key, v.Transport.key = key, key
	v.API, err = client.New(client.Options{
		URL: "http://gateway", APIKey: key, HTTPClient: &http.Client{Transport: v.Transport}, OneTry: true,
	})
	if err != nil { // no key has such characters
		return problem.New(problem.Unauthenticated, "Send a valid API key as Authorization: Bearer <key>.")
	}
	return nil
}

// Context is the context of the visit's calls.
func (v *Visit) Context() context.Context { return v.Request.Context() }

// RoundTrip gives the API's answer to a request; a refusal is an answer too.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ask := func(ctx context.Context) *answer {
		got := &answer{header: http.Header{}}
		t.api.ServeHTTP(got, t.Request(ctx, r))
		return got
	}
	var got *answer
	if t.Shared != nil && r.Method == http.MethodGet {
		var err error
		if got, err = t.Shared.read(r.Context(), t.key, r.URL.RequestURI(), ask); err != nil {
			return nil, err
		}
	} else {
		got = ask(r.Context())
	}
	return &http.Response{
		Status: http.StatusText(got.status), StatusCode: got.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: got.header, Body: io.NopCloser(bytes.NewReader(got.body.Bytes())), ContentLength: int64(got.body.Len()), Request: r,
	}, nil
}

// Request is a client's request as a server gets it.
func (t *transport) Request(ctx context.Context, r *http.Request) *http.Request {
	inner := r.Clone(ctx)
	inner.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	inner.Host, inner.RequestURI, inner.RemoteAddr = t.browser.Host, inner.URL.RequestURI(), t.browser.RemoteAddr
	for _, name := range []string{"X-Forwarded-For", "Forwarded"} { // the API knows which of them to trust
		if given := t.browser.Header.Values(name); len(given) > 0 {
			inner.Header[name] = given
		}
	}
	if t.key != "" {
		inner.Header.Set("Authorization", "Bearer "+t.key)
	}
	inner.Header.Set("X-Correlation-Id", t.correlation)
	return inner
}

// answer is what the API writes, kept in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}
