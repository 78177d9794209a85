// Package contract holds what services answer to their OpenAPI documents. A client
// whose transport is Transport has each exchange with a gateway validated; what does
// not keep to the document is collected, and ends the run.
package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/iotest"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Document is an OpenAPI document to hold answers to.
type Document struct {
	*openapi3.T
	router routers.Router
	public bool // it is the gateway's

	mu   sync.Mutex
	seen map[string]int
}

// Load reads api-docs/NAME.json of the repository.
func Load(name string) (*Document, error) {
	_, here, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "..", "api-docs", name+".json"))
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	// Answers may gain fields, says the document, but not without it.
	no := false
	for _, schema := range doc.Components.Schemas {
		for _, member := range schema.Value.Properties { // kin-openapi takes null for any JSON only where nullable says so
			if s := member.Value; s.Type == nil && len(s.AllOf) == 0 && len(s.OneOf) == 0 && len(s.AnyOf) == 0 {
				s.Nullable = true
			}
		}
		if s := schema.Value; len(s.Properties) > 0 && s.AdditionalProperties.Schema == nil {
			s.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
		}
	}
	doc.Servers = nil // tests have addresses of their own
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, err
	}
	return &Document{T: doc, router: router, public: name == "gateway", seen: map[string]int{}}, nil
}

// Exchange is one request and its answer.
type Exchange struct {
	Request *http.Request
	// Body is the request's; nil where it is not known: then it is not judged.
	Body   []byte
	Status int
	Header http.Header
	Answer []byte
}

// Check says what is not as the document has it; nil if all is. A request that was
// accepted has to be one that the document allows.
func (d *Document) Check(ctx context.Context, e Exchange) error {
	route, params, err := d.router.FindRoute(e.Request)
	if err != nil {
		if e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Status >= 430 {
			return nil // there is no such route, and it says so, or it never looked
		}
		return fmt.Errorf("no such operation: %w", err)
	}
	if media, _, _ := mime.ParseMediaType(e.Header.Get("Content-Type")); media != "" && !strings.HasSuffix(media, "json") {
		return nil // the documentation itself
	}
	options := &openapi3filter.Options{
		IncludeResponseStatus: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
	}
	request := e.Request.Clone(ctx)
	request.Body = io.NopCloser(bytes.NewReader(e.Body))
	request.ContentLength = int64(len(e.Body))
	asked := &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route, Options: options}
	told := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: asked, Status: e.Status, Header: e.Header, Options: options,
	}
	told.SetBodyBytes(e.Answer)
	if err := d.answered(route.Operation, &e); err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	if err := openapi3filter.ValidateResponse(ctx, told); err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	if e.Status >= 300 || itemByItem(route.Operation) {
		return nil
	}
	if e.Body == nil {
		return nil
	}
	if err := openapi3filter.ValidateRequest(ctx, asked); err != nil {
		return fmt.Errorf("the request was accepted, and should not have been: %w", err)
	}
	return nil
}

// answered holds an answer to what the document says once for all operations: a success has a status of its own, a
// problem one of the operation's codes, with that code's status and headers.
func (d *Document) answered(op *openapi3.Operation, e *Exchange) error {
	var headers []string
	if d.public {
		headers = []string{"X-Request-Id", "X-Correlation-Id"}
	}
	documented := op.Responses.Value(fmt.Sprint(e.Status)) != nil
	if media, _, _ := mime.ParseMediaType(e.Header.Get("Content-Type")); media == problem.ContentType {
		var p problem.Problem
		if err := json.Unmarshal(e.Answer, &p); err != nil {
			return err
		}
		if !slices.Contains(d.Codes(op), p.Code) {
			return fmt.Errorf("%s is none of its codes", p.Code)
		}
		documented = problem.New(p.Code, "").Status == e.Status
		switch {
		case d.public && e.Status == http.StatusUnauthorized:
			headers = append(headers, "WWW-Authenticate")
		case d.public && (e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable):
			headers = append(headers, "Retry-After")
		}
	}
	if !documented {
		return fmt.Errorf("the status %d is not documented", e.Status)
	}
	for _, name := range headers {
		if e.Header.Get(name) == "" {
			return fmt.Errorf("it has no %s", name)
		}
	}
	return nil
}

// Codes lists the problem codes that an operation may answer with.
func (d *Document) Codes(op *openapi3.Operation) []problem.Code {
	groups, _ := d.Components.Responses["Failure"].Value.Extensions["x-code-groups"].(map[string]any)
	var codes []problem.Code
	var add func(any)
	add = func(entries any) {
		all, _ := entries.([]any)
		for _, entry := range all {
			if text := fmt.Sprint(entry); groups[text] != nil {
				add(groups[text])
			} else {
				codes = append(codes, problem.Code(text))
			}
		}
	}
	add(op.Extensions["x-codes"])
	return codes
}

// itemByItem operations answer 200, whatever is wrong with single items.
func itemByItem(op *openapi3.Operation) bool {
	return op.OperationID == "submitBatch" || op.OperationID == "reportOutcomes"
}

// Under load one exchange in some is enough.
const (
	first = 100
	then  = 50
)

// due says whether an exchange's turn has come.
func (d *Document) due(request *http.Request, status int) bool {
	name := fmt.Sprint(request.Method, status)
	if route, _, err := d.router.FindRoute(request); err == nil {
		name += route.Path
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[name]++
	return d.seen[name] <= first || d.seen[name]%then == 0
}

// violations are of the whole process: a transport is shared by tests.
var violations struct {
	mu   sync.Mutex
	said map[string]string // what, and its first occurrence
}

// gateway is the public API's document.
var gateway = sync.OnceValues(func() (*Document, error) { return Load("gateway") })

// Transport validates what comes back from gateways, which are known by the header
// X-Request-Id: what a proxy or net/http answers is not held to the document.
func Transport(base http.RoundTripper) http.RoundTripper { return transport{base} }

type transport struct{ base http.RoundTripper }

// RoundTrip leaves request and answer as they are.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	// A hostile request has a path that net/http does not look at; what is accepted of
	// such may be stranger than a validator can read, 1e400 for one.
	if request.GetBody != nil && request.URL.Opaque == "" {
		if r, err := request.GetBody(); err == nil {
			body, _ = io.ReadAll(r)
		}
	}
	response, err := t.base.RoundTrip(request)
	if err != nil || response.Header.Get("X-Request-Id") == "" {
		return response, err
	}
	document, err := gateway()
	if err != nil {
		report(err.Error(), "")
		return response, nil
	}
	asked, ok := readable(request)
	if !ok || !document.due(asked, response.StatusCode) {
		return response, nil
	}
	if response.Header.Get("Content-Type") == "text/event-stream" { // it is read while it goes on
		return response, nil
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil { // the caller learns it as it would have
		response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(answer), iotest.ErrReader(err)))
		return response, nil
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	err = document.Check(context.WithoutCancel(request.Context()), Exchange{asked, body, response.StatusCode, response.Header, answer})
	if err != nil {
		what := fmt.Sprintf("%s %s: %d: %s", request.Method, document.path(asked), response.StatusCode, shorten(err))
		report(what, fmt.Sprintf("\n  %s\n  asked: %.500s\n  told: %.1000s", asked.URL, body, answer))
	}
	return response, nil
}

// readable gives the request with its path where it can be read: a hostile one may
// have it in a form that net/http passes on as it is.
func readable(request *http.Request) (*http.Request, bool) {
	if request.URL.Opaque == "" {
		return request, true
	}
	target, err := url.ParseRequestURI(request.URL.Opaque)
	if err != nil {
		return nil, false
	}
	target.RawQuery = request.URL.RawQuery
	read := request.Clone(request.Context())
	read.URL = target
	return read, true
}

// path is the document's, as in /v1/jobs/{id}.
func (d *Document) path(request *http.Request) string {
	if route, _, err := d.router.FindRoute(request); err == nil {
		return route.Path
	}
	return request.URL.Path
}

// CloseIdleConnections is for http.Client's.
func (t transport) CloseIdleConnections() {
	if closer, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// shorten leaves the schema and the value out of what the validator says.
func shorten(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\nSchema:")
	return strings.ReplaceAll(text, "\n", " ")
}

func report(what, where string) {
	violations.mu.Lock()
	defer violations.mu.Unlock()
	if violations.said == nil {
		violations.said = map[string]string{}
	}
	if _, known := violations.said[what]; !known {
		violations.said[what] = where
	}
}

// Violations gives what was found so far, each with the first exchange that had it.
func Violations() []string {
	violations.mu.Lock()
	defer violations.mu.Unlock()
	var found []string
	for _, what := range slices.Sorted(maps.Keys(violations.said)) {
		found = append(found, what+violations.said[what])
	}
	return found
}
