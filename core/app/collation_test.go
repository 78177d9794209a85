package app_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/server/diagnosis"
)

// A database that was made with another version of its collation is named by doctor and verify.
func TestAChangedCollationIsNamed(t *testing.T) {
	t.Parallel()
	cfg := config(t, celltest.NewURL(t))
	databaseURL := cfg.DatabaseURL.Reveal()
	lines := func() (found []string) {
		t.Helper()
		all, err := app.Verify(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range all {
			if strings.HasPrefix(line, "collation: ") {
				found = append(found, line)
			}
		}
		return found
	}
	said := func() (found []diagnosis.Finding) {
		t.Helper()
		for _, one := range app.Diagnose(t.Context(), map[string]string{"DATABASE_URL": databaseURL}).Findings {
			if one.Check == "PostgreSQL collation" {
				found = append(found, one)
			}
		}
		return found
	}
	if found, findings := lines(), said(); len(found) > 0 || len(findings) > 0 {
		t.Errorf("an unchanged collation: %v, %v", found, findings)
	}
	direct := celltest.Connect(t, databaseURL)
	if _, err := direct.Exec(t.Context(), `UPDATE pg_database SET datcollversion = '1.of-before' WHERE datname = current_database()`); err != nil {
		t.Fatal(err)
	}
	if found := lines(); len(found) != 1 || !strings.Contains(found[0], "1.of-before") {
		t.Errorf("verify says %v", found)
	}
	if found := said(); len(found) != 1 || found[0].Level != diagnosis.LevelWarn || !strings.Contains(found[0].Detail, "1.of-before") {
		t.Errorf("doctor says %v", found)
	}
}
