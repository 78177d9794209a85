package console_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// A stream that is open ends with its session, and outlives a core that is away.
func TestAStreamEndsWithItsSession(t *testing.T) {
	t.Parallel()
	now, ended, away := noon, 0, false
	var wrote []error
	served := false
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/whoami" && away:
			problem.New(problem.CoreUnavailable, "Core cannot be reached.").Write(w)
		case r.URL.Path == "/v1/whoami":
			_, _ = fmt.Fprintf(w, `{"tenant":"t","user":null,"scopes":["read"],"plan":"p","key_id":"k","sessions_ended":%d}`, ended)
		default:
			served = true
			write := func() {
				_, err := io.WriteString(w, ": comment\n\n")
				w.(http.Flusher).Flush()
				wrote = append(wrote, err)
			}
			write()
			now, away = now.Add(time.Minute), true
			write()
			now, away = now.Add(time.Minute), false
			write()
			ended++
			write() // it was looked at just now
			if r.Context().Err() != nil {
				t.Error("it ends before it must")
			}
			now = now.Add(time.Minute)
			write()
			if r.Context().Err() == nil {
				t.Error("it goes on")
			}
		}
	})
	made, err := console.New(console.Options{Secret: []byte(strings.Repeat("s", 32)), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	handler := made.Handler(api)
	send := func(method, path, cookie string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", cookie)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	cookie, _, _ := strings.Cut(send(http.MethodPost, "/console/sign-in", "", url.Values{"key": {"the-key"}}).Header().Get("Set-Cookie"), ";")
	send(http.MethodGet, "/console/jobs/j/events", cookie, nil)
	if len(wrote) != 5 || wrote[0] != nil || wrote[1] != nil || wrote[2] != nil || wrote[3] != nil || wrote[4] == nil {
		t.Errorf("writes ended with %v", wrote)
	}
	served = false
	if got := send(http.MethodGet, "/console/jobs/j/events", cookie, nil); served || got.Header().Get("Location") != "/console/sign-in?note=sessions-ended" {
		t.Errorf("another stream: %d %v", got.Code, got.Header())
	}
}
