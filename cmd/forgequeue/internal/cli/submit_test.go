package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestSubmitSaysAllThatItIsTold(t *testing.T) {
	f := newFixture(t)
	q := f.queue()
	file := filepath.Join(t.TempDir(), "payload.json")
	if err := os.WriteFile(file, []byte(" {\"n\": 1.10}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := f.submitted("mail", "--data", "@"+file, "--queue", q, "--priority", "8", "--delay", "1h", "--deadline", "2h", "--user", "ada",
		"--tag", "gpu", "--tag", "eu", "--metadata", "a=b=c", "--metadata", "d=", "--max-attempts", "7", "--timeout", "90s", "--dedupe-key", "one-"+q)
	job := decodeAs[api.Job](f, f.must("job", "get", id, "-o", "json"))
	if job.Type != "mail" || job.Queue != q || job.Priority != 8 || job.State != api.StateScheduled || *job.User != "ada" ||
		strings.Join(job.Tags, " ") != "gpu eu" && strings.Join(job.Tags, " ") != "eu gpu" || job.Metadata["a"] != "b=c" || job.Metadata["d"] != "" ||
		job.MaxAttempts != 7 || *job.TimeoutMS != 90_000 || *job.DedupeKey != "one-"+q || compact(t, job.Payload) != `{"n":1.10}` {
		t.Errorf("%+v", job)
	}
	if ahead := time.Until(job.Deadline.Time); ahead < 110*time.Minute || ahead > 130*time.Minute {
		t.Errorf("deadline in %v", ahead)
	}
	f.want(0, []string{"was there already: " + id}, "submit", "mail", "-q", q, "--user", "ada", "--dedupe-key", "one-"+q)

	r := f.runWith(t.Context(), `{"from":"stdin"}`, "submit", "mail", "-q", q, "--data", "-", "--key", "k-"+q, "-o", "json")
	again := f.runWith(t.Context(), `{"from":"stdin"}`, "submit", "mail", "-q", q, "--data", "-", "--key", "k-"+q, "-o", "json")
	const said = "This key was used before"
	if r.code != 0 || r.out != again.out || strings.Contains(r.err, said) || !strings.Contains(again.err, said) {
		t.Errorf("a repeat with the same key: %+v, %+v", r, again)
	}
	f.want(1, []string{"POST /v1/jobs was refused: idempotency_mismatch (422)", "request id: "}, "submit", "mail", "-q", q, "--data", "1", "--key", "k-"+q)
}

func TestSubmitRefusals(t *testing.T) {
	f := newFixture(t)
	f.want(1, []string{"invalid_request (400)", "type: must be", "priority: must be between 0 and 9", "request id: "}, "submit", "no good", "--priority", "10")
	f.want(2, []string{"--data", "is not JSON", "byte"}, "submit", "x", "--data", "{nonsense")
	if r := f.want(2, []string{"--data", "no such file"}, "submit", "x", "--data", "@/no/such/file"); strings.Contains(r.err, "Is the server") {
		t.Errorf("a file is taken for the server: %s", r.err)
	}
	f.want(2, []string{"--data", "262144"}, "submit", "x", "--data", `"`+strings.Repeat("a", api.MaxPayload)+`"`)
	f.want(2, []string{"--metadata"}, "submit", "x", "--metadata", "nonsense")
	f.want(2, []string{"--run-at", "such as"}, "submit", "x", "--run-at", "soon")
	f.want(2, []string{"name the TYPE: forgequeue submit TYPE --data JSON", "submit --help"}, "submit")
	f.want(2, []string{"one TYPE is wanted", "x, {}"}, "submit", "x", "{}")
	f.want(2, []string{"--key is empty"}, "submit", "x", "--key", "")
	f.with("FORGEQUEUE_API_KEY", "").want(3, []string{"FORGEQUEUE_API_KEY is not set", "no `forgequeue up` of yours runs here"}, "submit", "x")
	f.with("FORGEQUEUE_API_KEY", "fq_live_x").want(3, []string{
		"FORGEQUEUE_API_KEY is not a key of " + f.Ready.Gateway, "revoked, expired", "(401)", "request id: ",
	}, "submit", "x")
	for _, ending := range []string{"/v1", "/v1/"} {
		f.with("FORGEQUEUE_URL", f.Ready.Gateway+ending).want(3, []string{"must not end in /v1", "such as http"}, "submit", "x")
	}
	f.with("FORGEQUEUE_URL", "http://127.0.0.1:1").want(3, []string{"127.0.0.1:1", "FORGEQUEUE_URL"}, "submit", "x")
	f.with("FORGEQUEUE_URL", "nonsense").want(3, []string{"FORGEQUEUE_URL"}, "submit", "x")
}

func TestSubmitWait(t *testing.T) {
	f := newFixture(t)
	good, bad, nobody := f.queue(), f.queue(), f.queue()
	f.work("-q", good, "--", "echo", "done")
	f.work("-q", bad, "--", "sh", "-c", "echo boom >&2; exit 65")
	f.want(0, []string{"completed", `"done"`}, "submit", "x", "-q", good, "--wait")
	if job := decodeAs[api.Job](f, f.must("submit", "x", "-q", good, "--wait", "-o", "json")); string(job.Result) != `"done"` {
		t.Errorf("%+v", job)
	}
	f.want(1, []string{"dead_letter", "permanent", "boom"}, "submit", "x", "-q", bad, "--wait")
	r := f.want(4, []string{"has not ended within 1s", "queued"}, "submit", "x", "-q", nobody, "--wait", "--wait-timeout", "1s")
	const warned = "No worker has asked for jobs of the queue "
	before, after, _ := strings.Cut(r.err, "has not ended")
	if !strings.Contains(before, "warning: "+warned+nobody) || !strings.Contains(after, warned+nobody) {
		t.Errorf("the warning is not told before and after the wait: %s", r.err)
	}
	f.must("queues", "set", nobody, "--max-running", "0")
	if r = f.want(0, []string{"warning: ", "max_running is 0"}, "submit", "x", "-q", nobody); strings.Contains(r.out, "warning") {
		t.Errorf("the warning is in the output: %s", r.out)
	}
}

// The key of an `up` on this machine is used for that server, and told to no other.
func TestTheKeyOfALocalUp(t *testing.T) {
	f := newFixture(t).with("FORGEQUEUE_API_KEY", "")
	f.local = func() (up.Running, bool) {
		return up.Running{Gateway: f.Ready.Gateway, APIKey: f.Ready.APIKey, OperatorKey: f.Ready.OperatorKey, Data: "/the/data"}, true
	}
	f.want(0, []string{"using the key of", "/the/data"}, "whoami")
	f.with("FORGEQUEUE_URL", "").want(0, []string{"using the key of"}, "whoami")
	f.with("FORGEQUEUE_URL", strings.Replace(f.Ready.Gateway, "127.0.0.1", "localhost", 1)+"/").want(0, []string{"using the key of"}, "whoami")
	for _, other := range []string{"http://forgequeue.example:8080", "http://127.0.0.1:1", "http://ada:hunter2@127.0.0.1:1"} {
		r := f.with("FORGEQUEUE_URL", other).want(3, []string{
			"FORGEQUEUE_API_KEY is not set", "runs here at " + f.Ready.Gateway, "FORGEQUEUE_URL names another", "not sent there",
		}, "whoami")
		if strings.Contains(r.err, "no `forgequeue up`") || strings.Contains(r.err, "hunter2") || strings.Contains(r.err, f.Ready.APIKey) {
			t.Errorf("%s: %s", other, r.err)
		}
	}
	f.with("FORGEQUEUE_OPERATOR_KEY", "").want(0, []string{"using the key of"}, "plan", "get", "standard")
}
