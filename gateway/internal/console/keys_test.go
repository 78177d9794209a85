package console_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	const secret = "fq_live_made_once"
	list := `{"items":[{"key_id":"k","tenant":"t","user":null,"scopes":["read","admin"],"expires_at":null,"created_at":"2026-11-20T11:00:00Z"},
		{"key_id":"other","tenant":"t","user":"<ada>","scopes":["submit"],"expires_at":"2026-11-20T11:59:00Z","created_at":"2026-11-20T10:00:00Z"}],"next_page_token":"x"}`
	f := &fake{answers: map[string]string{
		"GET /v1/keys": list, "DELETE /v1/keys/other": `{}`,
		"POST /v1/keys": `{"key_id":"new","key":"` + secret + `","tenant":"t","user":null,"scopes":["read"],"expires_at":null,"created_at":"2026-11-20T12:00:00Z"}`,
	}}
	send := open(t, f)
	const entry = `href="/console/keys"`
	if _, text := send(http.MethodGet, "/console/session"); strings.Contains(text, entry) {
		t.Error("the menu of a key without admin shows it")
	}
	f.answers["GET /v1/whoami"] = `{"tenant":"t","user":null,"scopes":["read","admin"],"plan":"p","key_id":"k"}`
	status, text := send(http.MethodGet, "/console/keys")
	for _, want := range []string{entry, "this session", "expired", "&lt;ada&gt;", "Revoke other", "page_token=x", `value="read" checked`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	for _, unwanted := range []string{"Revoke k<", `value="admin" checked`, secret} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is in %s", unwanted, text)
		}
	}
	token := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(text)[1]
	if status, text := send(http.MethodPost, "/console/keys", "form", token, "scope", "read", "days", "3"); status != http.StatusOK || !strings.Contains(text, secret) || !strings.Contains(text, "Revoke other") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := send(http.MethodPost, "/console/keys", "form", token, "scope", "read", "days", "soon"); status != http.StatusBadRequest || !strings.Contains(text, "is not a whole number") {
		t.Errorf("%d %s", status, text)
	}
	// Sent twice, as by a double click, the form makes one key, and the answer that the browser shows has it.
	calls := countOf(f.asked, "POST /v1/keys")
	for range 2 {
		if status, text := send(http.MethodPost, "/console/keys", "form", token, "once", "o1", "scope", "read"); status != http.StatusOK || !strings.Contains(text, secret) {
			t.Errorf("%d %s", status, text)
		}
	}
	if made := countOf(f.asked, "POST /v1/keys") - calls; made != 1 {
		t.Errorf("a form that is sent twice makes %d keys", made)
	}
	// The key is not lost where the list cannot be read after it.
	f.answers["GET /v1/keys"] = "503"
	if status, text := send(http.MethodPost, "/console/keys", "form", token, "scope", "read"); status != http.StatusOK || !strings.Contains(text, secret) || !strings.Contains(text, "could not be read") {
		t.Errorf("%d %s", status, text)
	}
	if status, to := send(http.MethodPost, "/console/keys/other", "form", token, "do", "revoke"); status != http.StatusSeeOther || to != "/console/keys?note=key-revoked" {
		t.Errorf("%d %s", status, to)
	}
}

func countOf(asked []string, route string) (n int) {
	for _, one := range asked {
		if one == route {
			n++
		}
	}
	return n
}
