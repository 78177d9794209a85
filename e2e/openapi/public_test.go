package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const publicTable = `package httpapi

func (s *Server) routes() []route {
	return []route{
		{"GET", "/v1/queues/{name}/runs", readTenant, noBody, perRequest, page("state"), "", handle(h.ListRuns)},
		{"PUT", "/v1/jobs/{id}", orWhatever(read), body, perRequest, nil, "put", handle(h.PutJob)},
	}
}
`

const publicHandlers = `package handlers

// ListRuns lists a queue's runs. The newest are first.
//
//	@Param       state query string false "The state."
//	@Success     200 {object} api.Page[api.Run] "A page."
func (h *Handlers) ListRuns() {}

// PutJob tries a job.
//
//	@ID          tryJob
//	@Tags        Workers
//	@Param       id  path string true "The ended job's id." Format(uuid)
//	@Success     200 {object} api.Job "The job."
//	@x-access    "read"
func (h *Handlers) PutJob() {}
`

// What the gateway's table of routes says is not said again beside a handler; what is said there stays.
func TestThePublicTableIsAdded(t *testing.T) {
	t.Parallel()
	root, out := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"httpapi/routes.go": publicTable, "handlers/h.go": publicHandlers} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := annotatePublic(root, []string{"httpapi", "handlers"}, out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "handlers", "h.go"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "@") {
			got = append(got, strings.Join(strings.Fields(line)[1:], " "))
		}
	}
	want := []string{
		"@Summary List a queue's runs", "@ID listRuns", "@Tags Queues", `@Param name path string true "The queue's name."`, `@Param state query string false "The state."`,
		`@Param page_size query int false "Maximum number of items."`, "@Param page_token query string false \"`next_page_token` of the previous page.\"",
		`@Success 200 {object} api.Page[api.Run] "A page."`, `@x-access "read unbound"`, "@Router /v1/queues/{name}/runs [get]",
		"@ID tryJob", "@Tags Workers", "@Summary Try a job", `@Param id path string true "The ended job's id." Format(uuid)`,
		`@Param Idempotency-Key header string false "1 to 255 visible ASCII characters, with or without quotes; kept for at least 24 hours."`, `@Success 200 {object} api.Job "The job."`, `@x-access "read"`, "@Router /v1/jobs/{id} [put]",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}
