package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// All pages are read, and what is not final is marked.
func TestUsage(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/usage", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("by") != "type" || q.Get("from") != "2026-11-01" || q.Has("to") {
			http.Error(w, r.URL.RawQuery, http.StatusTeapot)
			return
		}
		name, open, next := "mail", false, `"more"`
		if q.Get("page_token") == "more" {
			name, open, next = "resize", true, "null"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"from":"2026-11-01","to":"2026-11-24","by":"type","begins":"2026-10-01","closed_through":"2026-11-23","capped":true,"items":[`+
			`{"day":null,"type":%q,"user":null,"open":%v,"accepted":12,"completed":9,"dead_letter":1,"redriven":0,"cancelled":2,"discarded":0,"running_ms":61000,"failed_running_ms":7000},`+
			`{"day":null,"type":"idle","user":null,"open":false}],`+
			`"next_page_token":%s}`, name, open, next)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	f := commandtest.On(t, server.URL)
	args := []string{"usage", "--by", "type", "--from", "2026-11-01"}
	f.Want(0, []string{"TYPE", "mail", "resize", "1m1s", "7s", "yes", "open"}, args...)
	if out := f.Must(args...); strings.Contains(out, "idle") {
		t.Errorf("rows without jobs: %s", out)
	}
	f.Want(0, []string{"idle"}, append(args, "--all")...)
	if made := commandtest.Decode[api.Usage](f, f.Must(append(args, "-o", "json")...)); len(made.Items) != 4 || made.Items[0].Accepted != 12 || made.NextPageToken != nil {
		t.Errorf("%+v", made)
	}
}
