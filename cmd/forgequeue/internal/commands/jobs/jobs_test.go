package jobs_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestJobsFiltersAndPages(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	var ids []string
	for range 5 {
		ids = append(ids, f.Submitted("small", "-q", q, "--metadata", "shop=a b", "--user", "ada"))
	}
	f.Submitted("other", "-q", q)
	count := func(args ...string) int {
		return len(commandtest.Decode[api.Page[api.JobSummary]](f, f.Must(append([]string{"jobs", "-q", q, "-o", "json"}, args...)...)).Items)
	}
	for n, args := range map[int][][]string{
		6: {{}, {"--limit", "0"}, {"--state", "queued,running"}, {"--created-after", "1h"}},
		5: {{"--type", "small"}, {"--metadata", "shop=a b"}, {"--user", "ada"}, {"--limit", "5"}},
		0: {{"--state", "completed"}, {"--tag", "none"}, {"--created-before", "1h"}},
	} {
		for _, one := range args {
			if got := count(one...); got != n {
				t.Errorf("%v: %d, want %d", one, got, n)
			}
		}
	}
	page := commandtest.Decode[api.Page[api.JobSummary]](f, f.Must("jobs", "-q", q, "--type", "small", "--limit", "2", "-o", "json"))
	if len(page.Items) != 2 || page.NextPageToken == nil || page.Items[0].ID != ids[4] {
		t.Fatalf("%+v", page)
	}
	rest := commandtest.Decode[api.Page[api.JobSummary]](f, f.Must("jobs", "-q", q, "--type", "small", "--page-token", *page.NextPageToken, "-o", "json"))
	if len(rest.Items) != 3 || rest.NextPageToken != nil || rest.Items[2].ID != ids[0] {
		t.Errorf("%+v", rest)
	}
	r := f.Want(0, []string{"ID", "STATE", ids[4], "--page-token "}, "jobs", "-q", q, "--type", "small", "--limit", "1")
	if strings.Contains(r.Out, "page-token") {
		t.Error("the hint is in the output")
	}
	f.Want(1, []string{"invalid_request", "state"}, "jobs", "--state", "nonsense")
	f.Want(2, []string{"--limit"}, "jobs", "--limit", "-1")
	f.Want(2, []string{"must be one of table, json, jsonl, name"}, "jobs", "-o", "xml")
}

// For scripts: a JSON value on each line, or only what the next command takes.
func TestFormsOfOutputForScripts(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	var ids []string
	for range 5 {
		ids = append([]string{f.Submitted("small", "-q", q)}, ids...)
	}
	if got, want := f.Must("jobs", "-q", q, "-o", "name"), strings.Join(ids, "\n")+"\n"; got != want {
		t.Errorf("names:\n%s\nwant:\n%s", got, want)
	}
	lines := strings.Split(strings.TrimSuffix(f.Must("jobs", "-q", q, "-o", "jsonl", "--limit", "0"), "\n"), "\n")
	for i, line := range lines {
		if job := commandtest.Decode[api.JobSummary](f, line); job.ID != ids[i] {
			t.Errorf("line %d is %s, want job %s", i, line, ids[i])
		}
	}
	if len(lines) != len(ids) {
		t.Errorf("%d lines", len(lines))
	}
	r := f.Run("jobs", "-q", q, "-o", "name", "--limit", "2")
	if r.Out != ids[0]+"\n"+ids[1]+"\n" || !strings.Contains(r.Err, "--page-token") {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"job", "get", ids[0]}, {"job", "cancel", ids[0]}} {
		if got := f.Must(append(args, "-o", "name")...); got != ids[0]+"\n" {
			t.Errorf("%v: %q", args, got)
		}
		if got := f.Must(append(args, "-o", "jsonl")...); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, `{"id":"`+ids[0]+`",`) {
			t.Errorf("%v: %q", args, got)
		}
	}
	if got := f.Must("queues", "--limit", "0", "-o", "name"); !strings.Contains("\n"+got, "\n"+q+"\n") {
		t.Errorf("the queues are %q, without %s", got, q)
	}
	if got := f.Must("submit", "small", "-q", q, "-o", "name"); len(got) != 37 {
		t.Errorf("submit: %q", got)
	}
	f.Want(2, []string{"neither an id nor a name"}, "limits", "-o", "name")
	tenant, _, _ := strings.Cut(f.Must("tenant", "list", "-o", "name"), "\n")
	f.Want(2, []string{"never shown again"}, "key", "create", tenant, "-o", "name")
	f.Want(2, []string{"never shown again"}, "key", "create", "--platform", "-o", "name")
	for _, flag := range []string{"--push=https://example.com/jobs", "--new-push-secret"} {
		f.Want(2, []string{"never shown again"}, "queues", "set", q, flag, "-o", "name")
	}
	if got := f.Must("queues", "set", q, "--max-running", "3", "-o", "name"); got != q+"\n" {
		t.Errorf("queues set: %q", got)
	}
}

// People try `jobs list`, `jobs get` and `dead-letters`, and a message says what a flag must be.
func TestCommandsThatPeopleTry(t *testing.T) {
	f := commandtest.New(t)
	f.Want(2, []string{"--user must not be empty"}, "job", "--user", "")
	f.Want(2, []string{"--queue must not be empty"}, "dead-letter", "groups", "-q", "")
	f.Want(2, []string{"ID must not be empty"}, "job", "get", "")
	q := f.Queue()
	id := f.Submitted("small", "-q", q)
	for _, args := range [][]string{{"jobs", "list", "-q", q}, {"job", "-q", q}, {"jobs", "get", id}, {"job", "get", id}} {
		f.Want(0, []string{id}, args...)
	}
	f.Want(0, nil, "dead-letters", "-q", q)
	for want, args := range map[string][]string{
		`--priority "x": must be a whole number; see`:         {"submit", "small", "--priority", "x"},
		`--priority "99999999999999999999": is out of range`:  {"submit", "small", "--priority", "99999999999999999999"},
		`--delay "5": must be a duration with its unit`:       {"submit", "small", "--delay", "5"},
		`--created-after "soon": must be a time such as 2026`: {"jobs", "--created-after", "soon"},
	} {
		if r := f.Want(2, []string{want}, args...); strings.Contains(r.Err, "strconv") || strings.Contains(r.Err, "invalid argument") {
			t.Errorf("%v: %s", args, r.Err)
		}
	}
}
