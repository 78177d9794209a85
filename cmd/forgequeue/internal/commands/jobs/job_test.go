package jobs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestJobCommands(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	f.Work("-q", q, "--", "sh", "-c", "echo oops >&2; exit 65")
	id := f.Submitted("x", "-q", q, "--data", `{"esc":"[31m"}`, "--metadata", "k=v")
	if job := f.Ended(id); job.State != api.StateDeadLetter {
		t.Fatal(job.State)
	}
	r := f.Want(0, []string{id, "dead_letter", "permanent", "k=v", "exit_65: exit status 65: oops"}, "job", "get", id)
	if strings.ContainsRune(r.Out, '\x1b') {
		t.Errorf("escape codes where there is no terminal: %q", r.Out)
	}
	f.Want(0, []string{"ENDED AS", "failed", "exit_65"}, "job", "attempts", id)
	if list := commandtest.Decode[api.Page[api.Attempt]](f, f.Must("job", "attempts", id, "-o", "json")); len(list.Items) != 1 || list.Items[0].Kind != "failed" {
		t.Errorf("%+v", list)
	}
	f.Want(1, []string{"dead_letter", "oops"}, "job", "watch", id)
	f.Want(1, []string{"job_terminal (409)"}, "job", "cancel", id)
	f.Must("queues", "pause", q)
	f.Want(0, []string{id, "queued"}, "job", "redrive", id)
	f.Want(1, []string{"not_dead (409)"}, "job", "redrive", id)
	f.Want(4, []string{"queued", "has not ended within"}, "job", "watch", id, "--wait-timeout", "100ms")
	f.Want(0, []string{"cancelled"}, "job", "cancel", id)
	f.Want(1, []string{"not_found (404)", "request id: "}, "job", "get", "0199f0a4-7c1e-7000-8000-5d2c6f1e9a10")
	f.Want(2, []string{`has no command "fly"`}, "job", "fly")
	f.Want(2, []string{"missing ID: forgequeue job get ID", "job get --help"}, "job", "get")
}

// A job that waits says for what, a signal wakes it, and so does a link.
func TestJobSignal(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	c := f.Client()
	id := f.Submitted("refund", "-q", q)
	f.Want(0, []string{"signal", "paid"}, "job", "signal", id, "paid", "--data", `{"eur":7}`)
	claim := func() api.ClaimedJob {
		claimed, err := c.Claim(t.Context(), api.ClaimRequest{WorkerID: "w-" + q, Queues: []string{q}, WaitMS: new(int64(20_000))})
		if err != nil || len(claimed.Jobs) != 1 {
			t.Fatalf("%+v, %v", claimed, err)
		}
		return claimed.Jobs[0]
	}
	wait := api.WaitRequest{LeaseToken: claim().LeaseToken, For: []string{"approved", "rejected"}, TimeoutMS: new(int64(3_600_000))}
	if _, err := c.ReportWait(t.Context(), id, wait); err != nil {
		t.Fatal(err)
	}
	f.Want(0, []string{"state", "waiting", "waiting for", "approved, rejected", "wait until", "attempt", "0 of 3"}, "job", "get", id)
	f.Want(0, []string{id, "waiting"}, "job", "list", "--state", "waiting", "--queue", q)
	f.Want(0, []string{"waiting", "signal", "approved, rejected", "Until: "}, "job", "why", id)
	f.Want(4, []string{"waiting for approved, rejected until "}, "job", "watch", id, "--wait-timeout", "100ms")
	other := f.Submitted("refund", "-q", q)
	if offered := completed(f, "job", "signal", ""); !slices.Contains(offered, id) || slices.Contains(offered, other) {
		t.Errorf("offered are %q", offered)
	}
	if offered := completed(f, "job", "signal-link", id, ""); !slices.Equal(offered, []string{"approved", "rejected"}) {
		t.Errorf("offered are %q", offered)
	}
	f.Must("job", "cancel", other)
	f.Want(2, []string{"missing NAME: forgequeue job signal ID NAME"}, "job", "signal", id)
	f.Want(2, []string{"expected 2 arguments, got 3"}, "job", "signal", id, "a", "b")
	f.Want(2, []string{"--data"}, "job", "signal", id, "approved", "--data", "{")
	f.Want(0, []string{"had a signal paid before, which stays"}, "job", "signal", id, "paid")
	link := commandtest.Decode[api.SignalLink](f, f.Must("job", "signal-link", id, "approved", "--title", "Refund?", "--expires", "72h", "-o", "json"))
	if left := time.Until(link.ExpiresAt.Time); left < 71*time.Hour || left > 72*time.Hour || !strings.HasPrefix(link.URL, f.Ready.Gateway+"/") {
		t.Errorf("%+v", link)
	}
	f.Want(0, []string{"url", f.Ready.Gateway, "expires"}, "job", "signal-link", id, "rejected")
	f.Must("job", "signal", id, "approved", "-d", `{"by":"ada"}`)
	woken := claim()
	if woken.WokenBy == nil || *woken.WokenBy != api.WokenBySignal || len(woken.Signals) != 2 || string(woken.Signals[0].Data) != `{"by":"ada"}` {
		t.Errorf("woken by %v, with %+v", woken.WokenBy, woken.Signals)
	}
	f.Must("job", "cancel", id)
	if _, err := c.Complete(t.Context(), id, api.CompleteRequest{LeaseToken: woken.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	f.Want(1, []string{"job_terminal (409)"}, "job", "signal", id, "late")
}

// A job that is put back again and again says why, though no attempt is spent.
func TestJobGetSaysWhyAJobWasSnoozed(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("\x7fELF, but cut"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.Work("-q", q, "--", program)
	id := f.Submitted("x", "-q", q)
	f.Eventually("the job is put back", func() bool { return f.State(id).LastError != nil })
	r := f.Want(0, []string{"scheduled", "snoozed because", "the command cannot be started", "exec format error"}, "job", "get", id)
	if !regexp.MustCompile(`(?m)^attempt +0 of 3$`).MatchString(r.Out) || !regexp.MustCompile(`(?m)^epoch +1 `).MatchString(r.Out) {
		t.Errorf("%s", r.Out)
	}
}

func TestJobWatchTellsWhatHappens(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	f.Work("-q", q, "--", "sh", "-c", "sleep 2; echo 1")
	id := f.Submitted("x", "-q", q, "--delay", "2s")
	r := f.Want(0, []string{"scheduled", "completed"}, "job", "watch", id)
	if strings.Count(r.Out, "\n") < 2 {
		t.Errorf("%s", r.Out)
	}
	r = f.Want(0, nil, "job", "watch", id, "-o", "json")
	if job := commandtest.Decode[api.Job](f, r.Out); job.ID != id || strings.Count(r.Out, "\n") != 1 {
		t.Errorf("%s", r.Out)
	}
}

func TestJobRerun(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	old := f.Submitted("x", "-q", q, "--data", `{"n":1}`, "--priority", "2", "--dedupe-key", "k-"+q)
	f.Want(1, []string{"job_live (409)"}, "job", "rerun", old)
	f.Must("job", "cancel", old)
	made := commandtest.Decode[api.SubmitResponse](f, f.Must("job", "rerun", old, "--data", `{"n":2}`, "--idempotency-key", "r-"+q, "-o", "json"))
	f.Want(0, []string{"rerun of", old, `{"n":2}`}, "job", "get", made.ID)
	if made.RerunOf == nil || *made.RerunOf != old || made.Queue != q || made.Priority != 2 || made.DedupeKey != nil {
		t.Errorf("%+v", made)
	}
	f.Want(0, []string{"This key was used before", made.ID}, "job", "rerun", old, "--data", `{"n":2}`, "--idempotency-key", "r-"+q)
	f.Work("-q", q, "--", "true")
	f.Want(0, []string{"completed"}, "job", "rerun", old, "--type", "y", "--wait")
	f.Want(2, []string{"missing ID"}, "job", "rerun")
	live := f.Submitted("x", "-q", f.Queue())
	f.Want(1, []string{"job_live (409)"}, "job", "delete", live)
	f.Must("job", "delete", old)
	f.Want(1, []string{"not_found (404)"}, "job", "delete", old)
	f.Want(0, []string{"rerun of", old}, "job", "get", made.ID)
}

func TestJobChange(t *testing.T) {
	f := commandtest.New(t)
	q, other := f.Queue(), f.Queue()
	id := f.Submitted("x", "-q", q, "--tag", "gpu", "--metadata", "a=b", "--delay", "1h")
	f.Want(0, []string{id, "priority", "9", other}, "job", "change", id, "--priority", "9", "--queue", other, "--data", `{"n":2}`, "--max-attempts", "7",
		"--deadline", "2h", "--metadata", "c=d", "--delay", "0s")
	job := commandtest.Decode[api.Job](f, f.Must("job", "get", id, "-o", "json"))
	if job.Priority != 9 || job.Queue != other || commandtest.Compact(t, job.Payload) != `{"n":2}` || job.MaxAttempts != 7 || job.Deadline == nil ||
		len(job.Metadata) != 1 || job.Metadata["c"] != "d" || !slices.Equal(job.Tags, []string{"gpu"}) {
		t.Errorf("%+v", job)
	}
	f.Must("job", "change", id, "--tag", "", "--metadata", "", "--run-at", "1h")
	if job = f.State(id); len(job.Tags) != 0 || len(job.Metadata) != 0 || job.State != api.StateScheduled {
		t.Errorf("%+v", job)
	}

	etag := regexp.MustCompile(`(?m)^etag +(\S+)$`).FindStringSubmatch(f.Must("job", "get", id))
	if etag == nil {
		t.Fatal("job get shows no etag")
	}
	f.Must("job", "change", id, "--priority", "3", "--if-match", etag[1])
	f.Want(1, []string{"precondition_failed (412)"}, "job", "change", id, "--priority", "4", "--if-match", etag[1])
	f.Want(1, []string{"precondition_failed (412)"}, "job", "change", id, "--priority", "4", "--if-match", `"`+etag[1]+`"`)
	f.Must("job", "change", id, "--priority", "5", "--if-match", "*")
	f.Want(1, []string{"is no ETag"}, "job", "change", id, "--priority", "4", "--if-match", "")

	f.Want(1, []string{"invalid_request (400)", "(--priority)", "(--max-attempts)", "(--run-at)"}, "job", "change", id, "--priority", "10", "--max-attempts", "0", "--run-at", "100000h")
	f.Want(2, []string{"nothing is changed: give one of --data, --queue"}, "job", "change", id)
	f.Want(2, []string{"nothing is changed"}, "job", "change", id, "--if-match", etag[1])
	f.Want(2, []string{"--delay cannot be combined with --run-at"}, "job", "change", id, "--delay", "1s", "--run-at", "2s")
	f.Want(2, []string{"missing ID: forgequeue job change ID --priority 9"}, "job", "change")
	f.Want(2, []string{"--data"}, "job", "change", id, "--data", "{")
	f.Must("job", "cancel", id)
	f.Want(1, []string{"job_started (409)"}, "job", "change", id, "--priority", "4")
}
