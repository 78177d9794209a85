package gate_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

type fixture struct{ *enginetest.Fixture }

func newFixture(t *testing.T, keys *api.KeySettingsRequest) *fixture {
	t.Helper()
	f := &fixture{enginetest.New(t)}
	if keys != nil {
		f.Put(api.DefaultQueue, api.QueueRequest{Keys: keys})
	}
	return f
}

// of makes n jobs of a key.
func of(key string, n int, change ...func(*api.SubmitRequest)) []api.SubmitRequest {
	made := make([]api.SubmitRequest, n)
	for i := range made {
		made[i] = api.SubmitRequest{Type: "test", Key: &key}
		for _, c := range change {
			c(&made[i])
		}
	}
	return made
}

func weighing(weight float64) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.KeyWeight = &weight }
}

func at(priority int) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.Priority = &priority }
}

// batch submits jobs with one call.
func (f *fixture) batch(d *enginetest.Core, requests ...api.SubmitRequest) []uuid.UUID {
	f.Helper()
	call := f.Call(requests...)
	f.Accepted(d.Submit(f.Context(), []submitsCall{call})...)
	return call.IDs
}

// take claims n jobs, one after the other call.
func (f *fixture) take(n int) []claim.Job {
	f.Helper()
	call := f.ClaimCall(api.DefaultQueue)
	call.Max = n
	return f.Claim(call)
}

// keys are those of jobs, in their order.
func (f *fixture) keys(found []claim.Job) []string {
	f.Helper()
	keys := make([]string, len(found))
	for i := range found {
		keys[i] = *f.Get(found[i].ID).Key
	}
	return keys
}

// pass works off all checks, and wakes claims.
func (f *fixture) pass() {
	f.Helper()
	if err := f.D.PassGates(f.Context(), f.Tenant); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) end(found []claim.Job, change ...func(*jobs.Ending)) {
	f.Helper()
	endings := enginetest.Endings(found)
	for i := range endings {
		for _, c := range change {
			c(&endings[i])
		}
	}
	for i, ended := range f.Store.Jobs.End(f.Context(), endings) {
		if ended.Err != nil {
			f.Fatal(i, ended.Err)
		}
	}
	f.pass()
}
