package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

func TestJobCommands(t *testing.T) {
	f := newFixture(t)
	q := f.queue()
	f.work("-q", q, "--", "sh", "-c", "echo oops >&2; exit 65")
	id := f.submitted("x", "-q", q, "--data", `{"esc":"[31m"}`, "--metadata", "k=v")
	if job := f.ended(id); job.State != api.StateDeadLetter {
		t.Fatal(job.State)
	}
	r := f.want(0, []string{id, "dead_letter", "permanent", "k=v", "exit_65: exit status 65: oops"}, "job", "get", id)
	if strings.ContainsRune(r.out, '\x1b') {
		t.Errorf("escape codes where there is no terminal: %q", r.out)
	}
	f.want(0, []string{"ENDED AS", "failed", "exit_65"}, "job", "attempts", id)
	if list := decodeAs[api.Page[api.Attempt]](f, f.must("job", "attempts", id, "-o", "json")); len(list.Items) != 1 || list.Items[0].Kind != "failed" {
		t.Errorf("%+v", list)
	}
	f.want(1, []string{"dead_letter", "oops"}, "job", "watch", id)
	f.want(1, []string{"job_terminal (409)"}, "job", "cancel", id)
	f.must("queues", "pause", q)
	f.want(0, []string{id, "queued"}, "job", "redrive", id)
	f.want(1, []string{"not_dead (409)"}, "job", "redrive", id)
	f.want(4, []string{"queued", "has not ended within"}, "job", "watch", id, "--timeout", "100ms")
	f.want(0, []string{"cancelled"}, "job", "cancel", id)
	f.want(1, []string{"not_found (404)", "request id: "}, "job", "get", "0199f0a4-7c1e-7000-8000-5d2c6f1e9a10")
	f.want(2, []string{"job needs a command: attempts"}, "job")
	f.want(2, []string{`has no command "fly"`}, "job", "fly")
	f.want(2, []string{"name the ID: forgequeue job get ID", "job get --help"}, "job", "get")
}

// A job that is put back again and again says why, though no attempt is spent.
func TestJobGetSaysWhyAJobWasSnoozed(t *testing.T) {
	f := newFixture(t)
	q := f.queue()
	f.work("-q", q, "--type", "other", "--worker-id", "narrow-"+q, "--", "true")
	id := f.submitted("x", "-q", q)
	f.eventually("the job is put back", func() bool { return f.state(id).Epoch > 0 && f.state(id).State == api.StateScheduled })
	r := f.want(0, []string{"snoozed because", "worker narrow-" + q + ` has no handler for type "x"`}, "job", "get", id)
	if !regexp.MustCompile(`(?m)^attempt +0 of 3$`).MatchString(r.out) || !regexp.MustCompile(`(?m)^epoch +1 `).MatchString(r.out) {
		t.Errorf("%s", r.out)
	}

	q = f.queue()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("\x7fELF, but cut"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.work("-q", q, "--", program)
	id = f.submitted("x", "-q", q)
	f.eventually("the job is put back", func() bool { return f.state(id).LastError != nil })
	f.want(0, []string{"scheduled", "snoozed because", "the command cannot be started", "exec format error"}, "job", "get", id)
}

func TestJobWatchTellsWhatHappens(t *testing.T) {
	f := newFixture(t)
	q := f.queue()
	f.work("-q", q, "--", "sh", "-c", "sleep 2; echo 1")
	id := f.submitted("x", "-q", q, "--delay", "2s")
	r := f.want(0, []string{"scheduled", "completed"}, "job", "watch", id)
	if strings.Count(r.out, "\n") < 2 {
		t.Errorf("%s", r.out)
	}
	r = f.want(0, nil, "job", "watch", id, "-o", "json")
	if job := decodeAs[api.Job](f, r.out); job.ID != id || strings.Count(r.out, "\n") != 1 {
		t.Errorf("%s", r.out)
	}
}

func TestJobsFiltersAndPages(t *testing.T) {
	f := newFixture(t)
	q := f.queue()
	var ids []string
	for range 5 {
		ids = append(ids, f.submitted("small", "-q", q, "--metadata", "shop=a b", "--user", "ada"))
	}
	f.submitted("other", "-q", q)
	count := func(args ...string) int {
		return len(decodeAs[api.Page[api.JobSummary]](f, f.must(append([]string{"jobs", "-q", q, "-o", "json"}, args...)...)).Items)
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
	page := decodeAs[api.Page[api.JobSummary]](f, f.must("jobs", "-q", q, "--type", "small", "--limit", "2", "-o", "json"))
	if len(page.Items) != 2 || page.NextPageToken == nil || page.Items[0].ID != ids[4] {
		t.Fatalf("%+v", page)
	}
	rest := decodeAs[api.Page[api.JobSummary]](f, f.must("jobs", "-q", q, "--type", "small", "--page-token", *page.NextPageToken, "-o", "json"))
	if len(rest.Items) != 3 || rest.NextPageToken != nil || rest.Items[2].ID != ids[0] {
		t.Errorf("%+v", rest)
	}
	r := f.want(0, []string{"ID", "STATE", ids[4], "--page-token "}, "jobs", "-q", q, "--type", "small", "--limit", "1")
	if strings.Contains(r.out, "page-token") {
		t.Error("the hint is in the output")
	}
	f.want(1, []string{"invalid_request", "state"}, "jobs", "--state", "nonsense")
	f.want(2, []string{"--limit"}, "jobs", "--limit", "-1")
	f.want(2, []string{"table or json"}, "jobs", "-o", "xml")
}
