package httpserver_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/httpserver"
)

func TestProbe(t *testing.T) {
	server := start(t, httpserver.Options{Grace: hang, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "draining")
		}
	})})
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	address := strings.TrimPrefix(server.url, "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, listen := range []string{address, "0.0.0.0:" + port, ":" + port, "[::]:" + port} {
		if err := httpserver.Probe(t.Context(), listen, "/readyz"); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
	if err := httpserver.Probe(t.Context(), address, "/livez"); err == nil || !strings.Contains(err.Error(), "503: draining") {
		t.Errorf("an answer that is not 200: %v", err)
	}
	for _, listen := range []string{"127.0.0.1:1", "nonsense"} {
		if err := httpserver.Probe(t.Context(), listen, "/readyz"); err == nil {
			t.Errorf("%s: no error", listen)
		}
	}
}
