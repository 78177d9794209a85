package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// handlers and operations are such as core's are.
const handlers = `package httpapi

func (s *Server) probes() map[string]handler { return map[string]handler{"/livez": s.livez} }

func (s *Server) routes() []route {
	return []route{
		each(hop.List, owned(s.listJobs)), // a remark
		each(hop.Drop, owned(o.DropJob)),
	}
}

// livez says that the process is alive.
func (*Server) livez() {}

// listJobs lists jobs, newest
// first. All of them.
//
COMMENT
func (s *Server) listJobs(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Job], error) {
}
`

const operations = `package operations

// DropJob drops a job.
func (o *Operations) DropJob(ctx context.Context, owner tenant.ID, item hop.Item[struct{}]) (struct{}, error) {
}
`

const wire = `package hop

const ForTenant Access = "tenant"
const ForManager Access = "manager"

var (
	// Jobs
	List = list[PageRequest, api.Page[api.Job]]("limits/job-lists", ForTenant)
	Drop = write[struct{}, struct{}]("drops", ForManager).in(ClassList)
)

type PageRequest struct {
	PageSize int ` + "`json:\"page_size\"`" + `
}
`

func annotated(t *testing.T, replacements ...string) (string, error) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"shared/server/hop/hop.go": wire, "core/routes.go": strings.NewReplacer(replacements...).Replace(handlers), "operations/jobs.go": operations, "shared/api/a.go": "package api", "shared/problem/p.go": "package problem", "out/x": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copies, err := annotate(root, []string{"core", "operations"}, filepath.Join(root, "out"))
	if err != nil {
		return "", err
	}
	var all []byte
	for i, name := range []string{"routes.go", "jobs.go"} {
		text, err := os.ReadFile(filepath.Join(copies[i], name))
		if err != nil {
			return "", err
		}
		all = append(all, text...)
	}
	return string(all), nil
}

// What the table of routes and a handler's types say is not said again beside it.
func TestHandlersAreAnnotatedFromTheCode(t *testing.T) {
	t.Parallel()
	text, err := annotated(t, "COMMENT", "//\t@x-problems [\"not_found\"]")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = strings.Cut(text, "//\t@x-problems [\"not_found\"]\n")
	list, drop, _ := strings.Cut(text, "// DropJob")
	for _, want := range []string{
		"Summary Lists jobs, newest first", "Description All of them.", "ID limitsJobLists", "Tags Jobs", "Router /internal/v1/limits/job-lists [post]",
		`x-access "tenant"`, "Param envelope body hop.Envelope[hop.PageRequest] true", "Success 200 {object} hop.Results[api.Page[api.Job]]",
		`x-example-first {"page_size": 50}`,
	} {
		if !strings.Contains(list, "//\t@"+want) {
			t.Errorf("listJobs lacks %q:\n%s", want, list)
		}
	}
	for _, want := range []string{`x-access "manager"`, "hop.Envelope[any]", "hop.Results[any]", "x-example-none {}", "Tags Jobs"} {
		if !strings.Contains(drop, want) {
			t.Errorf("DropJob lacks %q:\n%s", want, drop)
		}
	}
	text, err = annotated(t, "COMMENT", "//\t@ID listThem")
	if err != nil || !strings.Contains(text, "@ID listThem") || strings.Contains(text, "@ID limitsJobLists") {
		t.Errorf("an ID in the comment does not replace the path's: %v\n%s", err, text)
	}
}

// The table of operations has the access; a comment does not say it again.
func TestAccessIsSaidOnce(t *testing.T) {
	t.Parallel()
	if text, err := annotated(t, "COMMENT", "//\t@x-access \"operator\""); err == nil || !strings.Contains(err.Error(), "listJobs: the table of operations has its x-access") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := annotated(t, "COMMENT", "//", "hop.Drop", "hop.Other"); err == nil || !strings.Contains(err.Error(), "hop.Other is no line of the table") {
		t.Error(err)
	}
}
