package console_test

import (
	"net/http"
	"strings"
	"testing"
)

// Characters that are not seen and turn text round are escaped in what is read, and kept in links and in the values of forms.
func TestHiddenCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	const id = "0190a1b2-0000-7000-8000-000000000000"
	f := &fake{answers: map[string]string{
		"GET /v1/jobs": `{"items":[{"id":"` + id + `","type":"t","queue":"q","created_at":"2026-11-20T11:50:00Z","state":"scheduled","run_at":"2026-11-20T12:02:00Z",
			"last_error":{"type":"E","message":"\u202egnp.\u2066exe\u200b"}}],"next_page_token":null}`,
	}}
	status, text := open(t, f)(http.MethodGet, "/console/jobs?user=%E2%80%AEada")
	if status != http.StatusOK || strings.ContainsAny(text, "\u2066\u200b") || !strings.Contains(text, `\u202egnp.\u2066exe\u200b`) {
		t.Errorf("%d %s", status, text)
	}
	if !strings.Contains(text, "value=\"\u202eada\"") {
		t.Errorf("the filter's own value is changed: %s", text)
	}
}
