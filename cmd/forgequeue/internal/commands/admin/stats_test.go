package admin_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// How stats are shown is tried on a server that answers as the contract says.
func TestStats(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/stats", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("queue") != "mail" || q.Get("step") != "hour" || q.Get("from") != "2026-11-24T10:00:00Z" || q.Has("to") {
			http.Error(w, r.URL.RawQuery, http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"from":"2026-11-24T10:00:00.000000Z","to":"2026-11-24T12:00:00.000000Z","step":"hour","queue":"mail","items":[` +
			`{"at":"2026-11-24T10:00:00.000000Z","submitted":12,"started":4,"completed":3,"failed_attempts":1,"dead_letter":0,"cancelled":0,"waiting_ms":10,"running_ms":6000},` +
			`{"at":"2026-11-24T11:00:00.000000Z","submitted":0,"started":0,"completed":0,"failed_attempts":0,"dead_letter":0,"cancelled":0,"waiting_ms":0,"running_ms":0}]}`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	f := commandtest.On(t, server.URL)
	args := []string{"stats", "--queue", "mail", "--from", "2026-11-24T10:00:00Z", "--step", "hour"}
	f.Want(0, []string{"SUBMITTED", "2026-11-24T10:00:00Z", "12", "2ms", "1.5s"}, args...)
	if made := commandtest.Decode[api.Stats](f, f.Must(append(args, "-o", "json")...)); len(made.Items) != 2 || made.Items[0].Submitted != 12 {
		t.Errorf("%+v", made)
	}
}
