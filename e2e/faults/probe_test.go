package faults_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// refusal is what may differ between two answers that should look alike: the
// request's own ids aside, everything.
type refusal struct {
	status             int
	code               problem.Code
	kind, title, about string
}

// probe makes one request with the load's key.
func (l *load) probe(c *http.Client, method, path, body string) refusal {
	l.t.Helper()
	request, err := http.NewRequestWithContext(l.t.Context(), method, l.urls[0]+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Authorization", "Bearer "+l.tenant.Key)
	response, err := c.Do(request)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	if response.StatusCode >= 500 {
		l.t.Errorf("%s %s: %d %s", method, path, response.StatusCode, answer)
	}
	var p problem.Problem
	if response.StatusCode >= 400 && json.Unmarshal(answer, &p) != nil {
		l.t.Errorf("%s %s: %d without a problem: %s", method, path, response.StatusCode, answer)
	}
	return refusal{response.StatusCode, p.Code, response.Header.Get("Content-Type"), p.Title, p.Detail}
}
