package api_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// A job that looks different to its watchers has another version.
func TestJobVersion(t *testing.T) {
	t.Parallel()
	half, text, number := 50.0, "half", "50"
	running := api.StateRunning
	seen := map[string]int{}
	jobs := []api.JobSummary{
		{State: api.StateQueued},
		{State: running},
		{State: running, Epoch: 2},
		{State: running, CancelRequested: true},
		{State: running, Progress: &api.Progress{}},
		{State: running, Progress: &api.Progress{Percent: &half}},
		{State: running, Progress: &api.Progress{Message: &number}},
		{State: running, Progress: &api.Progress{Message: &text}},
		{State: running, Progress: &api.Progress{Percent: &half, Message: &text}},
		{State: running, Progress: &api.Progress{Percent: &half, Message: new(`half" cancel`)}},
		{State: running, Progress: &api.Progress{Message: new("cancel")}},
		{State: running, Progress: &api.Progress{Message: new("")}},
	}
	for i := range jobs {
		version := jobs[i].Version()
		if other, ok := seen[version]; ok {
			t.Errorf("%+v and %+v have the version %q", jobs[i], jobs[other], version)
		}
		seen[version] = i
	}
}
