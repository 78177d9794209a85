package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
)

func TestDoctor(t *testing.T) {
	f := newFixture(t)
	whole := f.with("DATABASE_URL", f.Ready.DatabaseURL).with("REDIS_URL", f.Ready.Redis.URL)
	r := whole.want(0, []string{
		"gateway", "core ok", "API key", "operator key", "PostgreSQL version", "all are applied", "PostgreSQL durability", "PostgreSQL connections",
		"Redis version", "Redis scripts", "Redis memory", "clocks", "against this machine: the gateway within 1 s, PostgreSQL ",
	}, "doctor")
	if strings.Contains(r.out, "skip") {
		t.Errorf("%s", r.out)
	}
	var report struct {
		Findings []struct{ Level, Check, Detail, Advice string } `json:"findings"`
	}
	if err := json.Unmarshal([]byte(whole.must("doctor", "-o", "json")), &report); err != nil || len(report.Findings) < 10 {
		t.Errorf("%v: %+v", err, report)
	}
	f.want(0, []string{"DATABASE_URL is not set", "REDIS_URL is not set"}, "doctor")
}

func TestDoctorFindings(t *testing.T) {
	f := newFixture(t)
	separator := "?"
	if strings.Contains(f.Ready.DatabaseURL, "?") {
		separator = "&"
	}
	lossy := f.Ready.DatabaseURL + separator + "options=-csynchronous_commit%3Doff"
	f.with("DATABASE_URL", lossy).want(1, []string{"fail", "synchronous_commit", "turn it on"}, "doctor")
	f.with("DATABASE_URL", lossy).with("FORGEQUEUE_ALLOW_LOSSY_DATABASE", "true").want(0, []string{"warn", "synchronous_commit"}, "doctor")
	f.with("DATABASE_URL", f.Ready.DatabaseURL).with("FORGEQUEUE_DATABASE_CONNS", "900").want(1, []string{"PostgreSQL connections", "lower FORGEQUEUE_DATABASE_CONNS"}, "doctor")
	f.with("DATABASE_URL", f.Ready.DatabaseURL).with("FORGEQUEUE_DATABASE_CONNS", "many").want(1, []string{"PostgreSQL settings", "FORGEQUEUE_DATABASE_CONNS"}, "doctor")
	f.with("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/x").want(3, []string{"fail", "PostgreSQL"}, "doctor")
	f.with("REDIS_URL", "redis://:hunter2@127.0.0.1:1").want(3, []string{"fail", "Redis"}, "doctor")
	f.with("FORGEQUEUE_URL", "http://127.0.0.1:1").want(3, []string{"fail", "gateway"}, "doctor")
	f.with("FORGEQUEUE_API_KEY", "fq_live_wrong").want(1, []string{"API key", "is not a key of " + f.Ready.Gateway}, "doctor")
	kept := filepath.Join(t.TempDir(), "api_key")
	if err := os.WriteFile(kept, []byte("fq_live_wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.with("FORGEQUEUE_API_KEY", "").with("FORGEQUEUE_API_KEY_FILE", kept).want(1, []string{"API key", "is not a key of " + f.Ready.Gateway}, "doctor")
	f.with("FORGEQUEUE_API_KEY", "").with("FORGEQUEUE_API_KEY_FILE", kept+"x").want(1, []string{"fail", "FORGEQUEUE_API_KEY_FILE"}, "doctor")
	f.with("FORGEQUEUE_URL", f.Ready.Gateway+"/v1").want(3, []string{"fail", "must not end in /v1"}, "doctor")
	f.with("FORGEQUEUE_OPERATOR_KEY", "fq_operator_wrong").want(1, []string{"operator key"}, "doctor")
	f.with("FORGEQUEUE_URL", "").want(3, []string{"nothing answers at http://127.0.0.1:1", "nothing to look at"}, "doctor")
	for _, name := range []string{"DATABASE_URL", "REDIS_URL"} {
		for _, value := range []string{"x://u:hunter2@host:port/x", "hunter2", "postgres://u:hunter2@127.0.0.1:1/x", "redis://:hunter2@127.0.0.1:1"} {
			if r := f.with(name, value).want(3, nil, "doctor"); strings.Contains(r.out+r.err, "hunter2") {
				t.Errorf("%s=%s shows the password:\n%s%s", name, value, r.out, r.err)
			}
		}
	}
}

func TestDoctorFindsALocalUp(t *testing.T) {
	f := newFixture(t).with("FORGEQUEUE_URL", "").with("FORGEQUEUE_API_KEY", "").with("FORGEQUEUE_OPERATOR_KEY", "")
	f.local = func() (up.Running, bool) {
		return up.Running{Gateway: f.Ready.Gateway, APIKey: f.Ready.APIKey, OperatorKey: f.Ready.OperatorKey, Data: "/the/data"}, true
	}
	f.want(0, []string{"/the/data", "API key", "it opens /v1/admin", "DATABASE_URL is not set", "REDIS_URL is not set"}, "doctor")
	found := f.local
	f.local = func() (up.Running, bool) {
		local, ok := found()
		local.DatabaseURL, local.RedisURL = f.Ready.DatabaseURL, f.Ready.Redis.URL
		return local, ok
	}
	whole := []string{"PostgreSQL durability", "Redis version"}
	f.want(0, whole, "doctor")
	f.with("FORGEQUEUE_URL", f.Ready.Gateway).want(0, whole, "doctor")
	// Another server's stores are not those of this machine's `up`.
	f.with("FORGEQUEUE_URL", "http://127.0.0.1:1").want(3, []string{"DATABASE_URL is not set", "REDIS_URL is not set"}, "doctor")
}

// Where nothing is said, the gateway is looked for where all commands call it.
func TestDoctorTriesTheUsualAddress(t *testing.T) {
	f := newFixture(t).with("FORGEQUEUE_URL", "")
	f.usual = f.Ready.Gateway
	f.want(0, []string{f.Ready.Gateway + " ok", "API key"}, "doctor")
}
