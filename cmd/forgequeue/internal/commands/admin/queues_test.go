package admin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestQueues(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	f.Submitted("x", "-q", q, "--tag", "gpu")
	f.Want(0, []string{q, "no worker", "gpu"}, "queues", "list", "--limit", "0")
	f.Want(0, []string{q}, "queues", "--limit", "0")
	f.Want(0, []string{"paused"}, "queues", "pause", q)
	f.Want(0, []string{"paused"}, "queues", "get", q)
	f.Want(0, []string{"no worker"}, "queues", "resume", q)
	f.Must("queues", "set", q, "--visibility-timeout", "45s", "--max-active", "70", "--max-running", "3", "--retry-base", "1s")
	capped := f.Want(0, []string{"max active"}, "queues", "get", q)
	if !regexp.MustCompile(`(?m)^max active +70$`).MatchString(capped.Out) {
		t.Errorf("the cap is not shown: %s", capped.Out)
	}
	if got := f.Must("queues", "set", q+"-capped", "--max-running", "0"); !strings.Contains(got, "at its cap") {
		t.Errorf("a queue that may run nothing: %s", got)
	}
	f.Submitted("x", "-q", q+"-capped") // and no worker would help
	f.Want(0, []string{"at its cap"}, "queue", "get", q+"-capped")
	queue := commandtest.Decode[api.Queue](f, f.Must("queues", "set", q, "--max-attempts", "9", "--max-running", "none", "--rate", "none", "-o", "json"))
	s := queue.Settings
	if s.VisibilityTimeoutMS != 45_000 || s.MaxAttempts != 9 || s.MaxRunning != nil || s.RatePerSecond != nil || s.Retry.BaseMS != 1000 {
		t.Errorf("%+v", s)
	}
	if s.MaxActive == nil || *s.MaxActive != 70 {
		t.Error("what was not given did not stay: max_active")
	}
	if s = commandtest.Decode[api.Queue](f, f.Must("queues", "set", q, "--max-active", "none", "-o", "json")).Settings; s.MaxActive != nil || s.MaxAttempts != 9 {
		t.Errorf("%+v", s)
	}
	f.Must("queues", "set", q, "--max-active", "1")
	s = commandtest.Decode[api.Queue](f, f.Must("queues", "set", q, "--reset", "-o", "json")).Settings
	if s.VisibilityTimeoutMS != 30_000 || s.MaxAttempts != 3 || s.RatePerSecond != nil || s.MaxActive != nil {
		t.Errorf("%+v", s)
	}
	pushQueue(f, q)
	fresh := f.Queue()
	f.Want(0, []string{fresh}, "queues", "set", fresh, "--max-attempts", "2")
	f.Want(1, []string{"there is no queue absent", "first job", "queue set absent"}, "queues", "get", "absent")
	for _, verb := range []string{"pause", "resume", "probe"} {
		f.Want(1, []string{"there is no queue absent", "first job", "queue set absent"}, "queue", verb, "absent")
	}
	f.Want(1, []string{"invalid_request"}, "queues", "set", q, "--max-attempts", "0")
	f.Want(1, []string{"max_active: ", "(--max-active)"}, "queues", "set", q, "--max-active", "-1")
	f.Want(2, []string{"--max-active"}, "queues", "set", q, "--max-active", "many")
	f.Want(2, []string{"--rate"}, "queues", "set", q, "--rate", "fast")
}

// pushQueue takes a queue to push mode and back.
func pushQueue(f *commandtest.Fixture, q string) {
	f.Helper()
	made := commandtest.Decode[api.Queue](f, f.Must("queues", "set", q, "--push", "https://example.com/jobs", "--breaker-calls", "7", "-o", "json"))
	if made.Mode != api.ModePush || made.Settings.Push.Secret == nil || made.Settings.Push.Breaker.Calls != 7 {
		f.Errorf("%+v", made.Settings.Push)
	}
	changed := commandtest.Decode[api.Queue](f, f.Must("queues", "set", q, "--push-timeout", "7s", "--retry-curve", "linear", "-o", "json")).Settings
	if changed.Push == nil || changed.Push.TimeoutMS != 7000 || changed.Push.Breaker.Calls != 7 || changed.Push.Secret != nil || changed.Retry.Curve != api.CurveLinear {
		f.Errorf("%+v", changed)
	}
	own := "whsec_" + strings.Repeat("QUJD", 10)
	file := filepath.Join(f.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(own+"\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Want(0, []string{own, "shown only now", "closed"}, "queues", "set", q, "--push-secret-file", file)
	f.Want(0, []string{"whsec_", "shown only now"}, "queues", "set", q, "--new-push-secret")
	f.Want(0, []string{"https://example.com/jobs", "growing"}, "queues", "get", q)
	f.Want(1, []string{"push.url"}, "queues", "set", q, "--push", "http://example.com/")
	if back := commandtest.Decode[api.Queue](f, f.Must("queues", "set", q, "--push", "none", "-o", "json")); back.Mode != api.ModePull || back.Settings.Push != nil {
		f.Errorf("%+v", back)
	}
	f.Want(2, []string{"--push URL"}, "queues", "set", q, "--breaker-calls", "3")
}
