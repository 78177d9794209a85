package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// client calls the API in this process with one key, on behalf of one request of a browser.
type client struct {
	api http.Handler
	key string
	// browser is the request that this is done for: its address counts, and its context.
	browser *http.Request
	// correlation is the id by which the log lines of a page's calls are found.
	correlation string
	// once is the Idempotency-Key of the next call; empty for none.
	once string
	// shared is what open pages of the same key have read; nil where each read is a fresh one.
	shared *liveReads
}

// request makes a request to the API; path is escaped.
func (c *client) request(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Request, error) {
	target := path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body)) //nolint:gosec // it is served in this process, and goes nowhere
	if err != nil {
		return nil, err
	}
	r.Host, r.RequestURI, r.RemoteAddr = c.browser.Host, target, c.browser.RemoteAddr
	for _, name := range []string{"X-Forwarded-For", "Forwarded"} { // the API knows which of them to trust
		if given := c.browser.Header.Values(name); len(given) > 0 {
			r.Header[name] = given
		}
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	r.Header.Set("X-Correlation-Id", c.correlation)
	if c.once != "" {
		r.Header.Set("Idempotency-Key", c.once)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// call asks the API and reads its answer into `into`, which may be nil. A refusal is a *problem.Problem.
func (c *client) call(method, path string, query url.Values, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	ask := func(ctx context.Context) (*answer, error) { return c.ask(ctx, method, path, query, text) }
	var got *answer
	var err error
	if c.shared != nil && method == http.MethodGet {
		got, err = c.shared.read(c.browser.Context(), c.key, path+"?"+query.Encode(), ask)
	} else {
		got, err = ask(c.browser.Context())
	}
	if err != nil {
		return err
	}
	if got.status >= http.StatusBadRequest {
		refused := &problem.Problem{}
		if err := json.Unmarshal(got.body.Bytes(), refused); err != nil || refused.Status == 0 {
			return fmt.Errorf("%s %s answered %d", method, path, got.status)
		}
		return refused
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(got.body.Bytes(), into)
}

// ask asks the API; a refusal is an answer too.
func (c *client) ask(ctx context.Context, method, path string, query url.Values, body []byte) (*answer, error) {
	r, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	got := &answer{header: http.Header{}}
	c.api.ServeHTTP(got, r)
	return got, nil
}

// submit makes a job by a form that may be sent twice, by a double click: the form's own key makes it one job.
func (v *visit) submit(path string) (api.JobSummary, error) {
	v.once = v.form.Get("once")
	defer func() { v.once = "" }()
	var job api.JobSummary
	err := v.call(http.MethodPost, path, nil, nil, &job)
	return job, err
}

// get reads a resource of the API.
func get[T any](c *client, path string, query url.Values) (T, error) {
	var into T
	err := c.call(http.MethodGet, path, query, nil, &into)
	return into, err
}

// list reads one page of a list.
func list[T any](c *client, path string, query url.Values) (api.Page[T], error) {
	return get[api.Page[T]](c, path, query)
}

// resource escapes the parts of an API path.
func resource(parts ...string) string {
	path := "/v1"
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
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
