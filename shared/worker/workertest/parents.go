package workertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
)

// WithParent lets the job come after one with this ref that has completed with
// result, which is written as JSON: the job's Parents gives it. The worker of
// RunWorker needs [Client] for that.
func WithParent(ref string, result any) Option {
	return func(s *setting) {
		written, err := payload(result)
		if err != nil {
			s.fault = fmt.Errorf("the result of the parent %q: %w", ref, err)
			return
		}
		s.parent(ref, api.StateCompleted, written)
	}
}

// WithEndedParent lets the job come after one that ended without a result, as the
// policy "run" lets it: api.StateDeadLetter or api.StateCancelled.
func WithEndedParent(ref, state string) Option {
	return func(s *setting) { s.parent(ref, state, nil) }
}

func (s *setting) parent(ref, state string, result json.RawMessage) {
	id := fmt.Sprintf("00000000-0000-7000-8000-%012d", len(s.parents)+2) // 1 is the job itself
	s.job.Parents = append(s.job.Parents, api.ClaimedParent{Ref: &ref, JobID: id, State: state})
	s.parents = append(s.parents, api.JobParent{Ref: &ref, JobID: id, State: state, Result: result})
	if s.job.Workflow == nil {
		s.job.Workflow = &api.JobWorkflow{ID: "00000000-0000-7000-8000-000000000000", Ref: s.job.Type}
	}
}

// parentsKey is under which a handler's context has the []api.JobParent of its job.
type parentsKey struct{}

// parentsAnswer answers a call for the parents of the attempt's job, and is nil for
// every other call.
func parentsAnswer(request *http.Request) *http.Response {
	parents, _ := request.Context().Value(parentsKey{}).([]api.JobParent)
	if len(parents) == 0 || request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/parents") {
		return nil
	}
	body, err := json.Marshal(api.Page[api.JobParent]{Items: parents})
	if err != nil {
		return nil // not possible: results are JSON that this package has written
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}
