package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
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

func diagnose(t *testing.T, databaseURL string, settings ...string) diagnosis.Diagnosis {
	t.Helper()
	all := map[string]string{"DATABASE_URL": databaseURL}
	for i := 0; i < len(settings); i += 2 {
		all[settings[i]] = settings[i+1]
	}
	return app.Diagnose(t.Context(), all)
}

func TestDiagnoseAHealthyDatabase(t *testing.T) {
	t.Parallel()
	d := diagnose(t, celltest.URL(t))
	if !d.Reached || d.Clock.Abs() > time.Second || d.Doubt > time.Second {
		t.Errorf("%+v", d)
	}
	for _, check := range []string{"PostgreSQL version", "PostgreSQL durability", "PostgreSQL connections", "migrations"} {
		if f := leveled(d, check); f.Level != diagnosis.LevelOK || f.Advice != "" {
			t.Errorf("%s: %+v", check, f)
		}
	}
	for _, f := range d.Findings {
		if f.Level != diagnosis.LevelOK {
			t.Errorf("%+v", f)
		}
	}
}

func TestDiagnoseFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	url := celltest.URL(t)
	with := func(setting string) string {
		separator := "?"
		if strings.Contains(url, "?") {
			separator = "&"
		}
		return url + separator + "options=-c" + strings.ReplaceAll(setting, "=", "%3D")
	}
	for _, c := range []struct {
		d            diagnosis.Diagnosis
		check, level string
	}{
		{diagnose(t, celltest.EmptyURL(t)), "migrations", diagnosis.LevelFail},
		{diagnose(t, with("synchronous_commit=off")), "PostgreSQL synchronous_commit", diagnosis.LevelFail},
		{diagnose(t, with("synchronous_commit=off"), "FORGEQUEUE_ALLOW_LOSSY_DATABASE", "true"), "PostgreSQL synchronous_commit", diagnosis.LevelWarn},
		{diagnose(t, with("default_transaction_read_only=on")), "PostgreSQL writes", diagnosis.LevelFail},
		{diagnose(t, with("search_path=absent")), "migrations", diagnosis.LevelFail},
		{diagnose(t, url, "FORGEQUEUE_DATABASE_CONNS", "1000"), "PostgreSQL connections", diagnosis.LevelFail},
		{diagnose(t, url, "FORGEQUEUE_DATABASE_CONNS", "0"), "PostgreSQL settings", diagnosis.LevelFail},
	} {
		f := leveled(c.d, c.check)
		if !c.d.Reached || f.Level != c.level || f.Advice == "" {
			t.Errorf("%s: want %s, got %+v", c.check, c.level, c.d.Findings)
		}
	}
}

// The diagnosis of an empty database creates nothing.
func TestDiagnoseChangesNothing(t *testing.T) {
	t.Parallel()
	url := celltest.EmptyURL(t)
	diagnose(t, url)
	var tables int
	if err := celltest.Connect(t, url).QueryRow(t.Context(),
		`SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`).Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables, %v", tables, err)
	}
}

func TestDiagnoseAMigrationThatIsMissing(t *testing.T) {
	t.Parallel()
	url := celltest.URL(t)
	if _, err := celltest.Connect(t, url).Exec(t.Context(),
		`DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)`); err != nil {
		t.Fatal(err)
	}
	if f := leveled(diagnose(t, url), "migrations"); f.Level != diagnosis.LevelFail || !strings.Contains(f.Detail, "1 are not applied") {
		t.Errorf("%+v", f)
	}
}

func TestDiagnoseWithoutAServer(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "nonsense", "postgres://u:hunter2@127.0.0.1:1/x", "postgres://u:hunter2@host:port/x", "postgres://u:hunter2@db.example.invalid/x"} {
		d := diagnose(t, url)
		if d.Reached || len(d.Findings) == 0 || d.Findings[0].Level != diagnosis.LevelFail {
			t.Errorf("%s: %+v", url, d)
		}
		for _, f := range d.Findings {
			if strings.Contains(f.Detail+f.Advice, "hunter2") {
				t.Errorf("%s: %+v", url, f)
			}
		}
	}
}
