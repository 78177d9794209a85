package console

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// awaited are the signals that a person may send to a job: those that it waits for. Nil: the page has no form for one.
func awaited(v *visit.Visit, job *api.Job) []string {
	if job.State != api.StateWaiting || !v.May(api.ScopeSubmit) {
		return nil
	}
	return job.WaitingFor
}

// sendSignal sends a signal that was typed, and names the page to show next.
func sendSignal(v *visit.Visit, id string) (string, error) {
	signal := api.SignalRequest{Name: strings.TrimSpace(v.Form.Get("name"))}
	if text := strings.TrimSpace(v.Form.Get("data")); text != "" {
		if !json.Valid([]byte(text)) {
			return "", problem.New(problem.InvalidRequest, "The data is not JSON. A text needs its quotes: \"text\".")
		}
		signal.Data = json.RawMessage(text)
	}
	sent, err := v.API.Signal(v.Context(), id, signal)
	note := "job-signalled"
	if !sent.First {
		note = "job-signalled-before"
	}
	return "/console/jobs/" + url.PathEscape(id) + "?note=" + note, err
}
