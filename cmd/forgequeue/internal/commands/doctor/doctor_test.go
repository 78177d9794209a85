package doctor_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
)

func TestDoctor(t *testing.T) {
	f := commandtest.New(t)
	whole := f.With("DATABASE_URL", f.Ready.DatabaseURL).With("REDIS_URL", f.Ready.Redis.URL)
	r := whole.Want(0, []string{
		"gateway", "core ok", "API key", "operator key", "PostgreSQL version", "all are applied", "PostgreSQL durability", "PostgreSQL connections",
		"Redis version", "Redis scripts", "Redis memory", "clocks", "against this machine: the gateway within 1 s, PostgreSQL ",
	}, "doctor")
	if strings.Contains(r.Out, "skip") {
		t.Errorf("%s", r.Out)
	}
	var report struct {
		Findings []struct{ Level, Check, Detail, Advice string } `json:"findings"`
	}
	if err := json.Unmarshal([]byte(whole.Must("doctor", "-o", "json")), &report); err != nil || len(report.Findings) < 10 {
		t.Errorf("%v: %+v", err, report)
	}
	f.Want(0, []string{"DATABASE_URL is not set", "REDIS_URL is not set"}, "doctor")
}

func TestDoctorFindings(t *testing.T) {
	f := commandtest.New(t)
	separator := "?"
	if strings.Contains(f.Ready.DatabaseURL, "?") {
		separator = "&"
	}
	lossy := f.Ready.DatabaseURL + separator + "options=-csynchronous_commit%3Doff"
	f.With("DATABASE_URL", lossy).Want(1, []string{"fail", "synchronous_commit", "turn it on"}, "doctor")
	f.With("DATABASE_URL", lossy).With("FORGEQUEUE_ALLOW_LOSSY_DATABASE", "true").Want(0, []string{"warn", "synchronous_commit"}, "doctor")
	f.With("DATABASE_URL", f.Ready.DatabaseURL).With("FORGEQUEUE_DATABASE_CONNS", "2000").Want(1, []string{"PostgreSQL connections", "lower FORGEQUEUE_DATABASE_CONNS"}, "doctor")
	f.With("DATABASE_URL", f.Ready.DatabaseURL).With("FORGEQUEUE_DATABASE_CONNS", "many").Want(1, []string{"PostgreSQL settings", "FORGEQUEUE_DATABASE_CONNS"}, "doctor")
	f.With("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/x").Want(3, []string{"fail", "PostgreSQL"}, "doctor")
	f.With("REDIS_URL", "redis://:hunter2@127.0.0.1:1").Want(3, []string{"fail", "Redis"}, "doctor")
	f.With("FORGEQUEUE_URL", "http://127.0.0.1:1").Want(3, []string{"fail", "gateway"}, "doctor")
	f.With("FORGEQUEUE_API_KEY", "fq_live_wrong").Want(1, []string{"API key", "is not a key of " + f.Ready.Gateway}, "doctor")
	kept := filepath.Join(t.TempDir(), "api_key")
	if err := os.WriteFile(kept, []byte("fq_live_wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.With("FORGEQUEUE_API_KEY", "").With("FORGEQUEUE_API_KEY_FILE", kept).Want(1, []string{"API key", "is not a key of " + f.Ready.Gateway}, "doctor")
	f.With("FORGEQUEUE_API_KEY", "").With("FORGEQUEUE_API_KEY_FILE", kept+"x").Want(1, []string{"fail", "FORGEQUEUE_API_KEY_FILE"}, "doctor")
	f.With("FORGEQUEUE_URL", f.Ready.Gateway+"/v1").Want(3, []string{"fail", "must not end in /v1"}, "doctor")
	f.With("FORGEQUEUE_OPERATOR_KEY", "fq_operator_wrong").Want(1, []string{"operator key"}, "doctor")
	f.With("FORGEQUEUE_URL", "").Want(3, []string{"nothing answers at http://127.0.0.1:1", "nothing to look at"}, "doctor")
	for _, name := range []string{"DATABASE_URL", "REDIS_URL"} {
		for _, value := range []string{"x://u:hunter2@host:port/x", "hunter2", "postgres://u:hunter2@127.0.0.1:1/x", "redis://:hunter2@127.0.0.1:1"} {
			if r := f.With(name, value).Want(3, nil, "doctor"); strings.Contains(r.Out+r.Err, "hunter2") {
				t.Errorf("%s=%s shows the password:\n%s%s", name, value, r.Out, r.Err)
			}
		}
	}
}

// A URL that redirects is a wrong one: no client follows.
func TestDoctorFollowsNoRedirect(t *testing.T) {
	f := commandtest.New(t)
	redirecting := httptest.NewServer(http.RedirectHandler(f.Ready.Gateway+"/readyz", http.StatusMovedPermanently))
	t.Cleanup(redirecting.Close)
	f.With("FORGEQUEUE_URL", redirecting.URL).Want(3, []string{"fail", "gateway"}, "doctor")
}

func TestDoctorFindsALocalUp(t *testing.T) {
	f := commandtest.New(t).With("FORGEQUEUE_URL", "").With("FORGEQUEUE_API_KEY", "").With("FORGEQUEUE_OPERATOR_KEY", "")
	f.Local = func() []localup.Running {
		return []localup.Running{{Gateway: f.Ready.Gateway, APIKey: f.Ready.APIKey, OperatorKey: f.Ready.OperatorKey, Data: "/the/data"}}
	}
	f.Want(0, []string{"/the/data", "API key", "it opens /v1/admin", "DATABASE_URL is not set", "REDIS_URL is not set"}, "doctor")
	found := f.Local
	f.Local = func() []localup.Running {
		local := found()
		local[0].DatabaseURL, local[0].RedisURL = f.Ready.DatabaseURL, f.Ready.Redis.URL
		return local
	}
	whole := []string{"PostgreSQL durability", "Redis version"}
	f.Want(0, whole, "doctor")
	f.With("FORGEQUEUE_URL", f.Ready.Gateway).Want(0, whole, "doctor")
	// Another server's stores are not those of this machine's `up`.
	f.With("FORGEQUEUE_URL", "http://127.0.0.1:1").Want(3, []string{"DATABASE_URL is not set", "REDIS_URL is not set"}, "doctor")
}

// Where nothing is said, the gateway is looked for where all commands call it.
func TestDoctorTriesTheUsualAddress(t *testing.T) {
	f := commandtest.New(t).With("FORGEQUEUE_URL", "")
	f.Usual = f.Ready.Gateway
	f.Want(0, []string{f.Ready.Gateway + " ok", "API key"}, "doctor")
}

func TestDoctorOfAProfile(t *testing.T) {
	f := commandtest.New(t).With("FORGEQUEUE_URL", "").With("FORGEQUEUE_API_KEY", "").With("FORGEQUEUE_OPERATOR_KEY", "")
	if r := f.RunWith(f.Context(), f.Ready.APIKey+"\n", "profile", "add", "here", "--url", f.Ready.Gateway); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	checked := []string{f.Ready.Gateway + " ok", "API key", "FORGEQUEUE_OPERATOR_KEY is not set"}
	f.Want(0, checked, "doctor", "--profile", "here")
	f.Want(0, checked, "doctor") // it is the current one
	other := f.With("FORGEQUEUE_URL", "http://127.0.0.1:1").With("FORGEQUEUE_API_KEY", "fq_other")
	other.Want(3, []string{"127.0.0.1:1"}, "doctor")
	other.Want(0, checked, "doctor", "--profile", "here")
	f.Want(3, []string{`there is no profile "none"`}, "doctor", "--profile", "none")
	// A key of the environment goes before FORGEQUEUE_PROFILE, as for every command.
	other.With("FORGEQUEUE_PROFILE", "here").Want(3, []string{"127.0.0.1:1"}, "doctor")
	// A server without a key: the current profile's, if it is that server's.
	f.With("FORGEQUEUE_URL", f.Ready.Gateway).Want(0, checked, "doctor")
	elsewhere := f.With("FORGEQUEUE_URL", "http://127.0.0.1:1")
	elsewhere.Want(3, []string{"127.0.0.1:1"}, "doctor")
	elsewhere.With("FORGEQUEUE_PROFILE", "here").Want(3, []string{"the profile here is for a different server than FORGEQUEUE_URL names"}, "doctor")
	other.Want(3, []string{"--url names another server than FORGEQUEUE_URL"}, "doctor", "--url", f.Ready.Gateway)
}
