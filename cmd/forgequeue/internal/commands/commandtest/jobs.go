package commandtest

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Submitted submits a job and returns its id.
func (f *Fixture) Submitted(args ...string) string {
	f.Helper()
	return Decode[api.SubmitResponse](f, f.Must(append([]string{"submit", "-o", "json"}, args...)...)).ID
}

// Ended waits for the end of a job.
func (f *Fixture) Ended(id string) api.Job {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	job, err := f.Client().Wait(ctx, id)
	if err != nil {
		f.Fatal(err)
	}
	return job
}

// State is a job as it is now.
func (f *Fixture) State(id string) api.Job {
	f.Helper()
	job, err := f.Client().Get(f.Context(), id)
	if err != nil {
		f.Fatal(err)
	}
	return job
}
