package jobs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestSubmitSaysAllThatItIsTold(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	file := filepath.Join(t.TempDir(), "payload.json")
	if err := os.WriteFile(file, []byte(" {\"n\": 1.10}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := f.Submitted("mail", "--data", "@"+file, "--queue", q, "--priority", "8", "--delay", "1h", "--deadline", "2h", "--user", "ada",
		"--tag", "gpu", "--tag", "eu", "--metadata", "a=b=c", "--metadata", "d=", "--max-attempts", "7", "--timeout", "90s", "--dedupe-key", "one-"+q)
	job := commandtest.Decode[api.Job](f, f.Must("job", "get", id, "-o", "json"))
	if job.Type != "mail" || job.Queue != q || job.Priority != 8 || job.State != api.StateScheduled || *job.User != "ada" ||
		strings.Join(job.Tags, " ") != "gpu eu" && strings.Join(job.Tags, " ") != "eu gpu" || job.Metadata["a"] != "b=c" || job.Metadata["d"] != "" ||
		job.MaxAttempts != 7 || *job.TimeoutMS != 90_000 || *job.DedupeKey != "one-"+q || commandtest.Compact(t, job.Payload) != `{"n":1.10}` {
		t.Errorf("%+v", job)
	}
	if ahead := time.Until(job.Deadline.Time); ahead < 110*time.Minute || ahead > 130*time.Minute {
		t.Errorf("deadline in %v", ahead)
	}
	expiring := commandtest.Decode[api.Job](f, f.Must("job", "get", f.Submitted("mail", "--queue", q, "--expires-after", "90m"), "-o", "json"))
	if lives := expiring.Deadline.Sub(expiring.CreatedAt.Time); lives != 90*time.Minute {
		t.Errorf("it lives for %v", lives)
	}
	f.Want(0, []string{"was there already: " + id}, "submit", "mail", "-q", q, "--user", "ada", "--dedupe-key", "one-"+q)

	r := f.RunWith(t.Context(), `{"from":"stdin"}`, "submit", "mail", "-q", q, "--data", "-", "--idempotency-key", "k-"+q, "-o", "json")
	again := f.RunWith(t.Context(), `{"from":"stdin"}`, "submit", "mail", "-q", q, "--data", "-", "--idempotency-key", "k-"+q, "-o", "json")
	const said = "This key was used before"
	if r.Code != 0 || r.Out != again.Out || strings.Contains(r.Err, said) || !strings.Contains(again.Err, said) {
		t.Errorf("a repeat with the same key: %+v, %+v", r, again)
	}
	f.Want(1, []string{"POST /v1/jobs was refused: idempotency_mismatch (422)", "request id: "}, "submit", "mail", "-q", q, "--data", "1", "--idempotency-key", "k-"+q)
}

func TestSubmitRefusals(t *testing.T) {
	f := commandtest.New(t)
	f.Want(1, []string{"invalid_request (400)", "type: must be", "priority: must be between 0 and 9", "request id: "}, "submit", "no good", "--priority", "10")
	f.Want(2, []string{"--data", "is not JSON", "byte"}, "submit", "x", "--data", "{nonsense")
	if r := f.Want(2, []string{"--data", "no such file"}, "submit", "x", "--data", "@/no/such/file"); strings.Contains(r.Err, "Is the server") {
		t.Errorf("a file is taken for the server: %s", r.Err)
	}
	f.Want(2, []string{"--data", "262144"}, "submit", "x", "--data", `"`+strings.Repeat("a", api.MaxPayload)+`"`)
	f.Want(2, []string{"--metadata"}, "submit", "x", "--metadata", "nonsense")
	f.Want(2, []string{"--run-at", "such as"}, "submit", "x", "--run-at", "soon")
	f.Want(2, []string{"missing TYPE: forgequeue submit TYPE --data JSON", "submit --help"}, "submit")
	f.Want(2, []string{"expected one TYPE", "x, {}"}, "submit", "x", "{}")
	f.Want(2, []string{"--idempotency-key is empty"}, "submit", "x", "--idempotency-key", "")
	f.With("FORGEQUEUE_API_KEY", "").Want(3, []string{"FORGEQUEUE_API_KEY is not set", "no `forgequeue up` started by your user runs here"}, "submit", "x")
	f.With("FORGEQUEUE_API_KEY", "fq_live_x").Want(3, []string{
		"FORGEQUEUE_API_KEY is not a key of " + f.Ready.Gateway, "revoked, expired", "(401)", "request id: ",
	}, "submit", "x")
	for _, ending := range []string{"/v1", "/v1/"} {
		f.With("FORGEQUEUE_URL", f.Ready.Gateway+ending).Want(3, []string{"must not end in /v1", "such as http"}, "submit", "x")
	}
	f.With("FORGEQUEUE_URL", "http://127.0.0.1:1").Want(3, []string{"127.0.0.1:1", "FORGEQUEUE_URL"}, "submit", "x")
	for _, url := range []string{"nonsense", "127.0.0.1:8080", "localhost:8080", "ftp://127.0.0.1", "http:///"} {
		f.With("FORGEQUEUE_URL", url).Want(3, []string{"FORGEQUEUE_URL must be the gateway's address with its scheme", "such as http://"}, "submit", "x")
	}
}

func TestSubmitWait(t *testing.T) {
	f := commandtest.New(t)
	good, bad, nobody := f.Queue(), f.Queue(), f.Queue()
	f.Work("-q", good, "--", "echo", "done")
	f.Work("-q", bad, "--", "sh", "-c", "echo boom >&2; exit 65")
	f.Want(0, []string{"completed", `"done"`}, "submit", "x", "-q", good, "--wait")
	if job := commandtest.Decode[api.Job](f, f.Must("submit", "x", "-q", good, "--wait", "-o", "json")); string(job.Result) != `"done"` {
		t.Errorf("%+v", job)
	}
	f.Want(1, []string{"dead_letter", "permanent", "boom"}, "submit", "x", "-q", bad, "--wait")
	r := f.Want(4, []string{"has not ended within 3s", "queued", "waiting for job "}, "submit", "x", "-q", nobody, "--wait", "--wait-timeout", "3s")
	const warned = "No worker has asked for jobs of the queue "
	before, after, _ := strings.Cut(r.Err, "has not ended")
	if !strings.Contains(before, "warning: "+warned+nobody) || !strings.Contains(after, warned+nobody) {
		t.Errorf("the warning is not told before and after the wait: %s", r.Err)
	}
	f.Must("queues", "set", nobody, "--max-running", "0")
	if r = f.Want(0, []string{"warning: ", "has max_running 0"}, "submit", "x", "-q", nobody); strings.Contains(r.Out, "warning") {
		t.Errorf("the warning is in the output: %s", r.Out)
	}
}

func TestSubmitOnLive(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	dedupe := func(more ...string) []string {
		return append([]string{"submit", "x", "-q", q, "--dedupe-key", "k-" + q, "--delay", "1h"}, more...)
	}
	id := commandtest.Decode[api.SubmitResponse](f, f.Must(dedupe("--on-live", "extend", "--max-delay", "90m", "-o", "json")...)).ID
	f.Want(0, []string{"was there already: " + id}, dedupe("--on-live", "keep", "--data", "1")...)
	f.Want(0, []string{"was replaced: " + id}, dedupe("--on-live", "replace", "--data", "2")...)
	f.Want(0, []string{"was replaced: " + id}, dedupe("--on-live", "extend", "--max-delay", "90m", "--data", "3")...)
	f.Want(1, []string{"dedupe_conflict (409)"}, dedupe("--on-live", "fail")...)
	if job := f.State(id); string(job.Payload) != "3" || job.DedupeKey == nil || *job.DedupeKey != "k-"+q {
		t.Errorf("%+v", job)
	}
	f.Want(1, []string{"invalid_request (400)", "(--on-live)"}, dedupe("--on-live", "burn")...)
	f.Want(1, []string{"invalid_request (400)", "(--max-delay)"}, dedupe("--max-delay", "1m")...)
	f.Want(2, []string{"--on-live and --max-delay need --dedupe-key"}, "submit", "x", "--on-live", "fail")
	if offered := completed(f, "submit", "x", "--on-live", ""); len(offered) != 4 {
		t.Errorf("offered are %q", offered)
	}
}
