package visit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/inner"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// transport serves the API's client from the API's own handler, in this process, on behalf of one request of a browser.
type transport struct {
	api http.Handler
	// key is empty where nobody is signed in. Of a person it is what tells their answers from others'.
	key string
	// person is who has signed in by single sign-on, nil for a key.
	person *hop.Principal
	// browser is the request that this is done for: its address counts.
	browser *http.Request
	// correlation is the id by which the log lines of a page's calls are found.
	correlation string
	// shared is what open pages of the same key have read; nil where each read is a fresh one.
	Shared *liveReads
}

// UseKey makes the calls of the visit those of a key.
func (v *Visit) UseKey(key string) (err error) {
	v.Key, v.Transport.key, v.Transport.person = key, key, nil
	v.API, err = client.New(client.Options{
		URL: "http://gateway", APIKey: key, HTTPClient: &http.Client{Transport: v.Transport}, OneTry: true,
	})
	if err != nil { // no key has such characters
		return problem.New(problem.Unauthenticated, "Send a valid API key as Authorization: Bearer <key>.")
	}
	return nil
}

// UsePerson makes the calls of the visit those of a person, whom this process has signed in.
func (v *Visit) UsePerson(who hop.Principal) error {
	name := who.KeyID + "|" + who.Tenant + "|" + strings.Join(who.Scopes, ",") // no key has such characters
	if err := v.UseKey(name); err != nil {
		return err
	}
	v.Transport.person = &who
	return nil
}

// Context is the context of the visit's calls.
func (v *Visit) Context() context.Context { return v.Request.Context() }

// RoundTrip gives the API's answer to a request; a refusal is an answer too.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ask := func(ctx context.Context) *inner.Answer { return inner.Ask(t.api, t.Request(ctx, r)) }
	var got *inner.Answer
	if t.Shared != nil && r.Method == http.MethodGet {
		var err error
		if got, err = t.Shared.read(r.Context(), t.key, r.URL.RequestURI(), ask); err != nil {
			return nil, err
		}
	} else {
		got = ask(r.Context())
	}
	return &http.Response{
		Status: http.StatusText(got.Status), StatusCode: got.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: got.Header(), Body: io.NopCloser(bytes.NewReader(got.Body.Bytes())), ContentLength: int64(got.Body.Len()), Request: r,
	}, nil
}

// Request is a client's request as a server gets it.
func (t *transport) Request(ctx context.Context, r *http.Request) *http.Request {
	if t.person != nil {
		ctx = inner.AsPerson(ctx, *t.person)
	}
	asked := inner.Request(ctx, r, t.browser)
	if t.person != nil {
		asked.Header.Del("Authorization") // it names no key
	} else if t.key != "" {
		asked.Header.Set("Authorization", "Bearer "+t.key)
	}
	asked.Header.Set("X-Correlation-Id", t.correlation)
	return asked
}
