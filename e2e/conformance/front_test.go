package conformance_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/contract"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// front stands between one client and a gateway. It records requests, and what it does to some of them its rules say.
type front struct {
	*httptest.Server
	target string
	client *http.Client

	mu    sync.Mutex
	rules []*rule
	seen  []exchange
	// held, where not nil, holds all requests until it is closed.
	held chan struct{}
}

// rule is for the next requests that match it.
type rule struct {
	method, suffix string
	times          int
	// lose forwards the request and loses the answer.
	lose bool
	// status, header and body are answered in place of the gateway; a status of 0 forwards.
	status int
	header map[string]string
	body   string
	// hang answers nothing until the client goes away.
	hang bool
	// until, if set, delays the request until it is closed.
	until chan struct{}
}

// exchange is one request and what was answered.
type exchange struct {
	method, path string
	header       http.Header
	body         []byte
	// status is 0 while there is no answer, and for one that was lost.
	status         int
	came, answered time.Time
}

func newFront(t *testing.T, target string) *front {
	t.Helper()
	f := &front{target: target, client: &http.Client{
		Transport:     contract.Transport(&http.Transport{MaxIdleConnsPerHost: 100}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.resume()
		f.CloseClientConnections()
		f.Close()
		f.client.CloseIdleConnections()
	})
	return f
}

// refuse is a rule that answers with a problem. after is how long to wait, in milliseconds; 0 for null.
func refuse(method, suffix string, times, status int, code problem.Code, after int64) *rule {
	p := problem.New(code, "said by the front")
	p.Status = status
	if after > 0 {
		p.RetryAfterMS = &after
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return &rule{method: method, suffix: suffix, times: times, status: status, header: map[string]string{"Content-Type": problem.ContentType}, body: string(text)}
}

func (f *front) add(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
}

// hold lets no request through until resume.
func (f *front) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = make(chan struct{})
}

func (f *front) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		close(f.held)
		f.held = nil
	}
}

// requests gives those of a method whose path ends so.
func (f *front) requests(method, suffix string) []exchange {
	f.mu.Lock()
	defer f.mu.Unlock()
	var of []exchange
	for _, one := range f.seen {
		if one.method == method && strings.HasSuffix(one.path, suffix) {
			of = append(of, one)
		}
	}
	return of
}

// await waits for a request that is as wanted.
func (f *front) await(t *testing.T, what, method, suffix string, wanted func(exchange) bool) {
	t.Helper()
	stack.Eventually(t, time.Minute, what, func() bool { return slices.ContainsFunc(f.requests(method, suffix), wanted) })
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	rule, number, held := f.note(r, body)
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if rule != nil && rule.until != nil {
		select {
		case <-rule.until:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if rule != nil && rule.hang {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	var status int
	var header http.Header
	var answer []byte
	if rule != nil && rule.status != 0 {
		status, header, answer = rule.answer()
	} else if status, header, answer, err = f.forward(r, body); err != nil || (rule != nil && rule.lose) {
		panic(http.ErrAbortHandler) // closes the connection
	}
	f.answered(number, status)
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// answer is what is said in place of the gateway.
func (r *rule) answer() (int, http.Header, []byte) {
	header := http.Header{}
	for name, value := range r.header {
		header.Set(name, value)
	}
	return r.status, header, []byte(r.body)
}

// note records a request and gives the rule for it.
func (f *front) note(r *http.Request, body []byte) (found *rule, number int, held chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, exchange{method: r.Method, path: r.URL.Path, header: r.Header.Clone(), body: body, came: time.Now()})
	for _, one := range f.rules {
		if one.times != 0 && one.method == r.Method && strings.HasSuffix(r.URL.Path, one.suffix) {
			one.times--
			found = one
			break
		}
	}
	return found, len(f.seen) - 1, f.held
}

func (f *front) answered(number, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[number].status, f.seen[number].answered = status, time.Now()
}

// forward makes the request of the gateway. It ends when the client goes away.
func (f *front) forward(r *http.Request, body []byte) (int, http.Header, []byte, error) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, f.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header = r.Header.Clone()
	request.Header.Del("Connection")
	request.Header.Del("Accept-Encoding")
	response, err := f.client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	header := response.Header.Clone()
	header.Del("Connection")
	return response.StatusCode, header, answer, err
}
