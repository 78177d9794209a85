package client_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// The ETag of a job that was read is the version that is changed; without one nothing is sent.
func TestPatchJobIfChangesTheVersionThatWasRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodGet:
				w.Header().Set("ETag", `"v1"`)
				answer(w, http.StatusOK, map[string]any{"id": "j", "priority": 5})
			case n == 1:
				breakOff(w)
			case r.Header.Get("If-Match") == `"v1"`:
				answer(w, http.StatusOK, map[string]any{"id": "j", "priority": 6})
			default:
				refuse(w, problem.PreconditionFailed)
			}
		})
		job, etag, err := s.client.GetWithETag(t.Context(), "j")
		if err != nil || etag != `"v1"` {
			t.Fatalf("%q, %v", etag, err)
		}
		changed, err := s.client.PatchJobIf(t.Context(), "j", etag, api.JobPatch{Priority: new(job.Priority + 1)})
		if err != nil || changed.Priority != 6 {
			t.Errorf("%+v, %v", changed, err)
		}
		_, err = s.client.PatchJobIf(t.Context(), "j", `"v0"`, api.JobPatch{})
		if p, ok := problem.From(err); !ok || p.Code != problem.PreconditionFailed || client.Status(err) != http.StatusPreconditionFailed {
			t.Errorf("of another version: %v", err)
		}
		before := len(s.all())
		for _, none := range []string{"", "\"two\nlines\""} {
			if _, err := s.client.PatchJobIf(t.Context(), "j", none, api.JobPatch{}); err == nil {
				t.Errorf("%q was sent", none)
			}
		}
		if sent := len(s.all()); sent != before || before != 4 {
			t.Errorf("%d requests, then %d", before, sent)
		}
	})
}
