package cli_test

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
)

// pushQueue takes a queue to push mode and back.
func (f *fixture) pushQueue(q string) {
	f.Helper()
	made := decodeAs[api.Queue](f, f.must("queues", "set", q, "--push", "https://example.com/jobs", "--breaker-calls", "7", "-o", "json"))
	if made.Mode != api.ModePush || made.Settings.Push.Secret == nil || made.Settings.Push.Breaker.Calls != 7 {
		f.Errorf("%+v", made.Settings.Push)
	}
	changed := decodeAs[api.Queue](f, f.must("queues", "set", q, "--push-timeout", "7s", "--retry-curve", "linear", "-o", "json")).Settings
	if changed.Push == nil || changed.Push.TimeoutMS != 7000 || changed.Push.Breaker.Calls != 7 || changed.Push.Secret != nil || changed.Retry.Curve != api.CurveLinear {
		f.Errorf("%+v", changed)
	}
	own := "whsec_" + strings.Repeat("QUJD", 10)
	file := filepath.Join(f.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(own+"\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.want(0, []string{own, "shown only now", "closed"}, "queues", "set", q, "--push-secret-file", file)
	f.want(0, []string{"whsec_", "shown only now"}, "queues", "set", q, "--new-push-secret")
	f.want(0, []string{"https://example.com/jobs", "growing"}, "queues", "get", q)
	f.want(1, []string{"push.url"}, "queues", "set", q, "--push", "http://example.com/")
	if back := decodeAs[api.Queue](f, f.must("queues", "set", q, "--push", "none", "-o", "json")); back.Mode != api.ModePull || back.Settings.Push != nil {
		f.Errorf("%+v", back)
	}
	f.want(2, []string{"--push URL"}, "queues", "set", q, "--breaker-calls", "3")
}
