package app_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/app"
)

const someGroups = `[{"group":"ops","tenant":"0190a000-0000-7000-8000-00000000000a","scopes":["read"]}]`

// signOnSettings are those of single sign-on.
func signOnSettings(change ...string) map[string]string {
	all := settings("FORGEQUEUE_OIDC_ISSUER", "https://id.example.com", "FORGEQUEUE_OIDC_CLIENT_ID", "console",
		"FORGEQUEUE_OIDC_GROUPS", someGroups, "FORGEQUEUE_PUBLIC_URL", "https://jobs.example.com")
	maps.Copy(all, settings(change...))
	return all
}

func TestSettingsOfSingleSignOn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "groups")
	if err := os.WriteFile(file, []byte(someGroups), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, good := range []map[string]string{
		signOnSettings(), signOnSettings("FORGEQUEUE_OIDC_ISSUER", "http://127.0.0.1:5556/dex"), signOnSettings("FORGEQUEUE_OIDC_ISSUER", "http://localhost:5556"),
		signOnSettings("FORGEQUEUE_OIDC_CLIENT_SECRET", "s", "FORGEQUEUE_OIDC_CHECK_EVERY", "1s", "FORGEQUEUE_OIDC_GROUPS_CLAIM", "roles"),
		signOnSettings("FORGEQUEUE_OIDC_GROUPS", "", "FORGEQUEUE_OIDC_GROUPS_FILE", file),
	} {
		if _, err := app.Parse(good); err != nil {
			t.Error(err)
		}
	}
	for name, values := range map[string][]string{
		"FORGEQUEUE_OIDC_ISSUER":      {"id.example.com", "http://id.example.com", "https://", "https://id.example.com/?x", "https://u:p@id.example.com", ""},
		"FORGEQUEUE_OIDC_CLIENT_ID":   {""},
		"FORGEQUEUE_OIDC_GROUPS":      {"", "[]", "ops", `[{"group":"ops","tenant":"acme","scopes":["read"]}]`, strings.ReplaceAll(someGroups, "read", "root")},
		"FORGEQUEUE_PUBLIC_URL":       {""},
		"FORGEQUEUE_CONSOLE":          {"off"},
		"FORGEQUEUE_OIDC_CHECK_EVERY": {"0s", "2m"},
	} {
		for _, value := range values {
			if _, err := app.Parse(signOnSettings(name, value)); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%q: %v", name, value, err)
			}
		}
	}
}
