package app_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/server/diagnosis"
)

func leveled(d diagnosis.Diagnosis, check string) diagnosis.Finding {
	for _, f := range d.Findings {
		if f.Check == check {
			return f
		}
	}
	return diagnosis.Finding{}
}

func TestDiagnoseAHealthyRedis(t *testing.T) {
	t.Parallel()
	d := app.Diagnose(t.Context(), storetest.Redis(t))
	if !d.Reached || d.Clock.Abs() > time.Second {
		t.Errorf("%+v", d)
	}
	for _, check := range []string{"Redis version", "Redis scripts", "Redis pub/sub"} {
		if f := leveled(d, check); f.Level != diagnosis.LevelOK {
			t.Errorf("%s: %+v", check, f)
		}
	}
	if f := leveled(d, "Redis memory"); f.Level == "" {
		t.Errorf("memory: %+v", d.Findings)
	}
}

// A user who may not do what the gateway does.
func TestDiagnoseARedisThatAllowsLittle(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	options, err := redis.ParseURL(server)
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(options)
	defer func() { _ = admin.Close() }()
	name := fmt.Sprintf("doctor-%d", time.Now().UnixNano())
	if err := admin.Do(t.Context(), "ACL", "SETUSER", name, "on", ">hunter2", "~*", "+@all", "-eval", "-evalsha", "-publish", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Do(t.Context(), "ACL", "DELUSER", name).Err() }()
	parsed, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	parsed.User = url.UserPassword(name, "hunter2")
	d := app.Diagnose(t.Context(), parsed.String())
	if f := leveled(d, "Redis scripts"); f.Level != diagnosis.LevelFail || !strings.Contains(f.Advice, "EVAL") {
		t.Errorf("scripts: %+v", d.Findings)
	}
	if f := leveled(d, "Redis pub/sub"); f.Level != diagnosis.LevelWarn {
		t.Errorf("pub/sub: %+v", f)
	}
	if f := leveled(d, "Redis version"); f.Level != diagnosis.LevelWarn {
		t.Errorf("version: %+v", f)
	}
}

func TestDiagnoseWithoutARedis(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"nonsense", "redis://:hunter2@127.0.0.1:1", "redis://:hunter2@host:port/x", "http://u:hunter2@x"} {
		d := app.Diagnose(t.Context(), address)
		if d.Reached || len(d.Findings) != 1 || d.Findings[0].Level != diagnosis.LevelFail || strings.Contains(d.Findings[0].Detail, "hunter2") {
			t.Errorf("%s: %+v", address, d)
		}
	}
}
