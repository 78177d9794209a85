package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func exporting(t *testing.T, status int, media, body string) *client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/users/ada%2Fb/export" {
			t.Error(r.URL)
		}
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{URL: server.URL, APIKey: "fq_live_x_y"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An export without its last line is an error, whatever came before.
func TestAnExportIsWholeOrAnError(t *testing.T) {
	t.Parallel()
	const job = `{"kind":"job","job":{"id":"1"}}` + "\n"
	for name, c := range map[string]struct {
		status      int
		media, body string
		lines       int
		partial     bool
		refused     int
	}{
		"whole":     {200, "application/jsonl", job + `{"kind":"attempt","job_id":"1","attempt":{"attempt":1}}` + "\n" + `{"kind":"end","lines":2}` + "\n", 2, false, 0},
		"empty":     {200, "application/jsonl", `{"kind":"end","lines":0}` + "\n", 0, false, 0},
		"broke off": {200, "application/jsonl", job + `{"kind":"att`, 1, true, 0},
		"no end":    {200, "application/jsonl", job, 1, true, 0},
		"refused":   {403, "application/problem+json", `{"status":403,"code":"forbidden"}`, 0, false, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []api.ExportLine
			var failed error
			for line, err := range exporting(t, c.status, c.media, c.body).ExportUser(t.Context(), "ada/b") {
				if err != nil {
					failed = err
					break
				}
				lines = append(lines, line)
			}
			if len(lines) != c.lines || errors.Is(failed, client.ErrPartialExport) != c.partial || client.Status(failed) != c.refused || (failed != nil) != (c.partial || c.refused > 0) {
				t.Errorf("%d lines, %v", len(lines), failed)
			}
		})
	}
}
