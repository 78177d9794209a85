// Package coretest is a core for tests of the gateway: an HTTP server that
// checks signatures as core does and answers what a test tells it to.
package coretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// Secret is the hop secret of every Core.
const Secret = "the hop secret of tests, 32 bytes or more"

// Item is one caller's request as core sees it.
type Item = hop.Item[json.RawMessage]

// Result is an answer to it.
type Result = hop.Result[any]

// Answer answers one item.
type Answer func(Item) Result

// Request is one call that came with a good signature.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
	Items  []Item
}

// Core is a server. All of it may be used from several goroutines.
type Core struct {
	URL string
	// Now is core's clock.
	Now func() time.Time

	mu       sync.Mutex
	answers  map[string]Answer
	raw      map[string]http.HandlerFunc
	keys     map[string]hop.KeyRecord
	requests []Request
	unsigned int
}

// New starts a Core that is ready and knows no keys.
func New(tb testing.TB) *Core {
	tb.Helper()
	c := &Core{Now: time.Now, answers: map[string]Answer{}, raw: map[string]http.HandlerFunc{}, keys: map[string]hop.KeyRecord{}}
	c.On(hop.GetReadiness.Path, func(Item) Result { return Value(http.StatusOK, api.Readiness{Status: "ok"}) })
	c.On(hop.LookUpKey.Path, c.lookUp)
	c.On(hop.LookUpTenant.Path, c.lookUp)
	server := httptest.NewServer(http.HandlerFunc(c.serve))
	tb.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Value is a good answer.
func Value(status int, value any) Result { return Result{Status: status, Value: &value} }

// Refuse is a refusal of the item.
func Refuse(code problem.Code, detail string) Result {
	p := problem.New(code, detail)
	return Result{Status: p.Status, Problem: p}
}

// On sets what a path answers.
func (c *Core) On(path string, answer Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[path] = answer
}

// Raw lets a test answer a path's HTTP request by itself, after the signature.
func (c *Core) Raw(path string, answer http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw[path] = answer
}

// AddKey makes a key known, and RevokeKey unknown again.
func (c *Core) AddKey(key hop.KeyRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[key.KeyID] = key
}

// AddTenant makes a tenant known by its id, and RevokeKey unknown again.
func (c *Core) AddTenant(tenant hop.KeyRecord) {
	tenant.Kind = hop.PrincipalTenant
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[tenant.Tenant] = tenant
}

// RevokeKey makes a key unknown.
func (c *Core) RevokeKey(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keys, id)
}

// Requests gives the calls to one path so far.
func (c *Core) Requests(path string) []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.requests), func(r Request) bool { return r.Path != path })
}

// Unsigned gives how many requests came without a good signature.
func (c *Core) Unsigned() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsigned
}

func (c *Core) lookUp(item Item) Result {
	var request hop.ID
	_ = json.Unmarshal(item.Request, &request) // an empty id is no key either
	c.mu.Lock()
	defer c.mu.Unlock()
	key, ok := c.keys[request.ID]
	if !ok {
		return Refuse(problem.NotFound, "core has its own words for no such key")
	}
	return Value(http.StatusOK, key)
}

func (c *Core) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	verifier := identity.Verifier{Secrets: [][]byte{[]byte(Secret)}, Window: hop.AssertionWindow * time.Second}
	err = verifier.Verify(r.Header.Get(identity.Header), r.Method, r.URL.Path, body, c.Now())
	switch {
	case err == nil:
	case errors.Is(err, identity.ErrExpired):
		w.Header().Set(identity.TimeHeader, strconv.FormatInt(c.Now().UnixMicro(), 10))
		problem.New(problem.AssertionExpired, "too late or too early").Write(w)
		return
	default:
		c.mu.Lock()
		c.unsigned++
		c.mu.Unlock()
		problem.New(problem.Unauthenticated, "who are you?").Write(w)
		return
	}
	var envelope hop.Envelope[json.RawMessage]
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&envelope); err != nil {
		problem.New(problem.InvalidJSON, err.Error()).Write(w)
		return
	}
	path := r.URL.Path
	if in, found := strings.CutPrefix(path, "/cells/"); found { // as a core with several cells has it
		_, rest, _ := strings.Cut(in, "/")
		path = "/" + rest
	}
	c.mu.Lock()
	c.requests = append(c.requests, Request{path, r.Header.Clone(), body, envelope.Items})
	answer, raw := c.answers[path], c.raw[path]
	c.mu.Unlock()
	switch {
	case raw != nil:
		r.Body = io.NopCloser(bytes.NewReader(body))
		raw(w, r)
	case answer != nil:
		c.answer(w, answer, envelope.Items)
	default:
		problem.New(problem.NotFound, "no such call").Write(w)
	}
}

func (c *Core) answer(w http.ResponseWriter, answer Answer, items []Item) {
	results := hop.Results[any]{Results: []Result{}}
	for _, item := range items {
		results.Results = append(results.Results, answer(item))
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(results) // a gateway that has left needs no answer
}
