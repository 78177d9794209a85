package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

const (
	hopSecret   = "the hop secret of tests, 32 bytes or more"
	keySecret   = "the key secret of tests, 32 bytes or more"
	operatorKey = "the-operator-key-of-these-tests"
)

func settings(change ...string) map[string]string {
	all := map[string]string{"FORGEQUEUE_HOP_SECRET": hopSecret, "FORGEQUEUE_KEY_SECRET": keySecret}
	for i := 0; i < len(change); i += 2 {
		all[change[i]] = change[i+1]
	}
	return all
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := app.Parse(settings())
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != "127.0.0.1:8080" || cfg.MetricsListen != "127.0.0.1:9090" || cfg.CoreURL != "http://127.0.0.1:8081" || cfg.RedisURL != "" ||
		cfg.OperatorKey != "" || cfg.KeyEnv != "live" || cfg.Grace != 30*time.Second || cfg.RequestTimeout != 10*time.Second ||
		cfg.LogFormat != "json" || cfg.LogLevel != "info" || cfg.HopSecret.Reveal() != hopSecret {
		t.Errorf("%+v", cfg)
	}
}

func TestEachProblemIsNamed(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]string{
		"FORGEQUEUE_HOP_SECRET":              {"", "short"},
		"FORGEQUEUE_KEY_SECRET":              {"", "short", hopSecret},
		"FORGEQUEUE_OPERATOR_KEY":            {"short", strings.Repeat("x", 26), "an operator key that has spaces in it"},
		"FORGEQUEUE_LISTEN":                  {"8080", "localhost", "127.0.0.1:"},
		"FORGEQUEUE_METRICS_LISTEN":          {"9090"},
		"FORGEQUEUE_CORE_URL":                {"core:8081", "http://", "http://core/x", "http://u:p@core", "home=http://core,home=http://core", "home=core"},
		"FORGEQUEUE_CONSOLE":                 {"yes", "ON"},
		"FORGEQUEUE_MCP":                     {"on", "READ"},
		"FORGEQUEUE_CONSOLE_SECRET":          {"short"},
		"FORGEQUEUE_CONSOLE_SECRET_PREVIOUS": {"short"},
		"FORGEQUEUE_KEY_ENV":                 {"LIVE", "a_b", strings.Repeat("x", 17)},
		"FORGEQUEUE_LOG_FORMAT":              {"xml"},
		"FORGEQUEUE_LOG_LEVEL":               {"loud"},
		"FORGEQUEUE_REQUEST_TIMEOUT":         {"10", "0s", "-1s", "31s"},
		"FORGEQUEUE_GRACE":                   {"soon", "-1s", "11m"},
		"FORGEQUEUE_DRAIN_NOTICE":            {"-1s", "6m"},
		"FORGEQUEUE_HOP_IN_FLIGHT":           {"0", "15", "-1", "100000"},
		"FORGEQUEUE_HOP_PARKED":              {"0", "100000"},
		"FORGEQUEUE_BREAKER_WINDOW":          {"0s", "11m"},
		"FORGEQUEUE_REDIS_TIMEOUT":           {"1ms", "20s"},
		"FORGEQUEUE_BREAKER_OPEN":            {"0s", "2m"},
		"FORGEQUEUE_REPLICAS":                {"0", "-1", "10001"},
		"FORGEQUEUE_TRUSTED_PROXIES":         {"10.0.0.0/33", "localhost", "10.0.0.0/8,nonsense", "10.0.0.0/8;10.1.0.0/8"},
		"FORGEQUEUE_IP_RATE":                 {"-1", "NaN", "1e9"},
		"FORGEQUEUE_IP_BURST":                {"0", "-1", "10000000"},
		"FORGEQUEUE_FAILED_KEY_RATE":         {"-1", "NaN", "Inf"},
		"FORGEQUEUE_FAILED_KEY_BURST":        {"0", "-1"},
		"REDIS_URL":                          {"localhost:6379", "redis://:hunter2@x/zero"},

		"OTEL_EXPORTER_OTLP_ENDPOINT":        {"127.0.0.1:4318", "http://", "http://u:hunter2@host:4318"},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": {"grpc://host:4317"},
	} {
		for _, value := range values {
			_, err := app.Parse(settings(name, value))
			if err == nil {
				t.Errorf("%s=%q was taken", name, value)
				continue
			}
			if !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s=%q: %v", name, value, err)
			}
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := app.Parse(map[string]string{"FORGEQUEUE_GRACE": "soon", "FORGEQUEUE_LISTEN": "x", "FORGEQUEUE_KEY_ENV": "X"})
	for _, part := range []string{"FORGEQUEUE_GRACE", "FORGEQUEUE_LISTEN", "FORGEQUEUE_KEY_ENV", "FORGEQUEUE_HOP_SECRET", "FORGEQUEUE_KEY_SECRET"} {
		if err == nil || strings.Count(err.Error(), part) != 1 {
			t.Errorf("%s is not named once: %v", part, err)
		}
	}
}

func TestSecretsHide(t *testing.T) {
	t.Parallel()
	cfg, err := app.Parse(settings("FORGEQUEUE_OPERATOR_KEY", operatorKey, "REDIS_URL", "redis://:hunter2@127.0.0.1:6379"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q\n", cfg, cfg, cfg, cfg.HopSecret, cfg.KeySecret)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("cfg", "secret", cfg.OperatorKey, "all", cfg)
	slog.New(slog.NewTextHandler(&out, nil)).Info("cfg", "secret", cfg.OperatorKey, "all", cfg)
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	for _, secret := range []string{hopSecret, keySecret, operatorKey, "hunter2"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q shows in %s", secret, out.String())
		}
	}
}

// api-docs/config.md is written from these tags.
func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	fields := slices.AppendSeq(slices.Collect(reflect.TypeFor[app.Config]().Fields()), reflect.TypeFor[telemetry.Export]().Fields())
	for _, field := range fields {
		name := field.Tag.Get("env")
		if name == "-" || field.Type == reflect.TypeFor[telemetry.Export]() {
			continue
		}
		doc, byDefault := field.Tag.Get("doc"), field.Tag.Get("envDefault")
		if name == "" || doc == "" || (byDefault != "" && !strings.Contains(doc, "Default "+byDefault)) {
			t.Errorf("%s: env %q, default %q, doc %q", field.Name, name, byDefault, doc)
		}
		if byDefault == "" && !strings.Contains(doc, "Required") && !strings.Contains(doc, "Default none") {
			t.Errorf("%s: doc %q tells no default", field.Name, doc)
		}
	}
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "operator_key")
	if err := os.WriteFile(path, []byte(operatorKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := app.Parse(settings("FORGEQUEUE_OPERATOR_KEY_FILE", path))
	if err != nil || cfg.OperatorKey.Reveal() != operatorKey {
		t.Errorf("FORGEQUEUE_OPERATOR_KEY_FILE: %v", err)
	}
	if _, err := app.Parse(settings("FORGEQUEUE_OPERATOR_KEY_FILE", path+"x")); err == nil || !strings.Contains(err.Error(), "FORGEQUEUE_OPERATOR_KEY_FILE") {
		t.Errorf("a file that is not there: %v", err)
	}
}
