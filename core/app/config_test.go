package app_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/app"
)

const hopSecret = "a-secret-of-at-least-32-bytes-abcdef"

// settings are those of a core that starts, with changes.
func settings(changes map[string]string) map[string]string {
	all := map[string]string{"DATABASE_URL": "postgres:///forgequeue?host=/run/postgresql", "FORGEQUEUE_HOP_SECRET": hopSecret}
	maps.Copy(all, changes)
	return all
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := app.Parse(settings(nil))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != "127.0.0.1:8081" || cfg.MetricsListen != "127.0.0.1:9091" || cfg.DatabaseConns != 16 ||
		cfg.DatabaseWait != 2*time.Second || cfg.Grace != 30*time.Second || cfg.AllowLossy || cfg.AllowPlaintext {
		t.Errorf("defaults: %+v", cfg)
	}
}

func TestEveryWrongSettingIsNamed(t *testing.T) {
	t.Parallel()
	const aTenant = "0198d8a2-5d9c-7c53-8f6e-6b1c2f0a9d10"
	for name, values := range map[string][]string{
		"FORGEQUEUE_CORE_LISTEN":               {"8081", "localhost", "host:", "::1"},
		"FORGEQUEUE_CORE_METRICS_LISTEN":       {"9091", "localhost:"},
		"DATABASE_URL":                         {""},
		"FORGEQUEUE_DATABASE_CONNS":            {"1", "0", "-5", "1001", "many", "99999999999"},
		"FORGEQUEUE_DATABASE_WAIT":             {"0s", "5ms", "2m", "2", "soon"},
		"REDIS_URL":                            {"localhost:6379", "http://localhost", "redis://:hunter2@host:port/x"},
		"FORGEQUEUE_HOP_SECRET":                {"", "hunter2"},
		"FORGEQUEUE_HOP_SECRET_PREVIOUS":       {"hunter2"},
		"FORGEQUEUE_LOG_FORMAT":                {"xml"},
		"FORGEQUEUE_LOG_LEVEL":                 {"loud"},
		"FORGEQUEUE_GRACE":                     {"-1s", "11m", "30", "soon"},
		"FORGEQUEUE_ALLOW_LOSSY_DATABASE":      {"perhaps"},
		"FORGEQUEUE_PUSH_SECRETS_KEY":          {"hunter2"},
		"FORGEQUEUE_PUSH_SECRETS_KEY_PREVIOUS": {"hunter2", "an-old-key-of-32-bytes-or-more-alone"},
		"FORGEQUEUE_PUSH_ALLOW":                {"10.0.0.1", "localhost", "10.0.0.0/33", "10.0.0.0/8;11.0.0.0/8"},
		"FORGEQUEUE_PUSH_IN_FLIGHT":            {"0", "7", "65537", "many"},
		"FORGEQUEUE_METRICS_QUEUES":            {"mail", "shop/mail", aTenant + "/", aTenant + "/a b", strings.Repeat(aTenant+"/mail,", 51)},
		"FORGEQUEUE_ALLOW_PLAINTEXT_DATABASE":  {"perhaps"},
		"FORGEQUEUE_CELLS":                     {"/absent", "config_test.go"},
		"OTEL_EXPORTER_OTLP_ENDPOINT":          {"127.0.0.1:4318", "http://", "http://u:hunter2@host:4318"},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":   {"grpc://host:4317"},
	} {
		for _, value := range values {
			_, err := app.Parse(settings(map[string]string{name: value}))
			if err == nil {
				t.Errorf("%s=%q is accepted", name, value)
				continue
			}
			if !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), hopSecret) {
				t.Errorf("%s=%q: %v", name, value, err)
			}
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := app.Parse(map[string]string{
		"FORGEQUEUE_CORE_LISTEN": "x", "FORGEQUEUE_CORE_METRICS_LISTEN": "y", "FORGEQUEUE_DATABASE_CONNS": "many",
		"FORGEQUEUE_DATABASE_WAIT": "0s", "FORGEQUEUE_HOP_SECRET": "short", "FORGEQUEUE_HOP_SECRET_PREVIOUS": "short",
		"FORGEQUEUE_GRACE": "soon", "FORGEQUEUE_LOG_LEVEL": "loud", "REDIS_URL": "nonsense",
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{
		"FORGEQUEUE_CORE_LISTEN", "FORGEQUEUE_CORE_METRICS_LISTEN", "DATABASE_URL", "FORGEQUEUE_DATABASE_CONNS", "FORGEQUEUE_DATABASE_WAIT",
		"FORGEQUEUE_HOP_SECRET", "FORGEQUEUE_HOP_SECRET_PREVIOUS", "FORGEQUEUE_GRACE", "FORGEQUEUE_LOG_LEVEL", "REDIS_URL",
	} {
		if n := strings.Count(err.Error(), name); n == 0 {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	cfg, err := app.Parse(settings(map[string]string{
		"DATABASE_URL": "postgres://u:hunter2@db.example.com/x?sslmode=disable", "REDIS_URL": "redis://:hunter2@r.example.com",
		"FORGEQUEUE_HOP_SECRET": "hunter2",
	}))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, text := range []string{err.Error(), sprint("%v", cfg), sprint("%+v", cfg), sprint("%#v", cfg)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
}

func TestAPlaintextRemoteDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for databaseURL, refused := range map[string]bool{
		"postgres://u:p@db.example.com/x":                                  true,
		"postgres://u:p@db.example.com/x?sslmode=prefer":                   true,
		"postgres://u:p@db.example.com/x?sslmode=disable":                  true,
		"postgres://u:p@db.example.com/x?sslmode=allow":                    true,
		"postgres://u:p@10.0.0.7:5432/x":                                   true,
		"postgres://u:p@one.example.com:5432,two.example.com:5432/x":       true,
		"postgres://u:p@localhost:5432,two.example.com:5432/x":             true,
		"postgres:///x?host=db.example.com":                                true,
		"host=db.example.com user=u dbname=x":                              true,
		"host=db.example.com user=u dbname=x sslmode=disable":              true,
		"host=db.example.com user=u dbname=x sslmode=require":              false,
		"postgres://u:p@one.example.com,two.example.com/x?sslmode=require": false,
		"postgres://u:p@db.example.com/x?sslmode=require":                  false,
		"postgres://u:p@db.example.com/x?sslmode=verify-full":              false,
		"postgres://u:p@localhost/x":                                       false,
		"postgres://u:p@127.0.0.1:5432/x?sslmode=disable":                  false,
		"postgres://u:p@[::1]:5432/x":                                      false,
		"postgres:///x?host=/run/postgresql":                               false,
		"host=/run/postgresql dbname=x":                                    false,
	} {
		_, err := app.Parse(settings(map[string]string{"DATABASE_URL": databaseURL}))
		if (err != nil) != refused {
			t.Errorf("%s: %v", databaseURL, err)
		}
		if err != nil && !strings.Contains(err.Error(), "FORGEQUEUE_ALLOW_PLAINTEXT_DATABASE") {
			t.Errorf("%s: no advice: %v", databaseURL, err)
		}
		accepted := settings(map[string]string{"DATABASE_URL": databaseURL, "FORGEQUEUE_ALLOW_PLAINTEXT_DATABASE": "true"})
		if _, err := app.Parse(accepted); err != nil {
			t.Errorf("%s although it is allowed: %v", databaseURL, err)
		}
	}
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "database_url")
	if err := os.WriteFile(path, []byte("postgres:///forgequeue?host=/run/postgresql\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := app.Parse(map[string]string{"DATABASE_URL_FILE": path, "FORGEQUEUE_HOP_SECRET": hopSecret})
	if err != nil || cfg.DatabaseURL.Reveal() != "postgres:///forgequeue?host=/run/postgresql" {
		t.Errorf("DATABASE_URL_FILE: %v", err)
	}
	if _, err := app.Parse(settings(map[string]string{"DATABASE_URL_FILE": path})); err == nil || !strings.Contains(err.Error(), "not both") {
		t.Errorf("both: %v", err)
	}
}
