package jobs_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestBulk(t *testing.T) {
	f := commandtest.New(t)
	q, other := f.Queue(), f.Queue()
	jobs := make([]api.SubmitRequest, 5)
	for i := range jobs {
		jobs[i] = api.SubmitRequest{Type: "many", Queue: q}
	}
	if answer, err := f.Client().SubmitBatch(f.Context(), api.BatchRequest{Jobs: jobs}); err != nil || answer.Accepted != 5 {
		t.Fatal(answer, err)
	}
	f.Want(2, []string{"choose jobs by a filter"}, "bulk", "cancel", "--dry-run")
	f.Want(2, []string{"whole number from 0 to 9"}, "bulk", "set-priority", "high", "-q", q)
	f.Want(0, []string{"5 jobs match"}, "jobs", "cancel", "-q", q, "--state", "queued", "--dry-run")
	f.Want(2, []string{"--yes"}, "jobs", "cancel", "-q", q)
	f.Want(0, []string{"5 done, 0 refused"}, "bulk", "set-priority", "9", "-q", q)
	f.Want(0, []string{"5 done, 0 refused"}, "bulk", "delay", "1h", "-q", q)
	f.Want(0, []string{"5 done, 0 refused"}, "bulk", "move", other, "--type", "many", "-q", q)
	f.Want(0, []string{"5 done, 0 refused"}, "bulk", "run-now", "-q", other)
	if list := commandtest.Decode[api.Page[api.JobSummary]](f, f.Must("jobs", "list", "-q", other, "-o", "json")); len(list.Items) != 5 || list.Items[0].State != api.StateQueued || list.Items[0].Priority != 9 {
		t.Errorf("%+v", list)
	}
	f.Want(0, []string{"5 done, 0 refused"}, "jobs", "cancel", "-q", other, "--yes")
	f.Want(0, []string{"5 done, 0 refused"}, "bulk", "rerun", "-q", other, "--state", "cancelled")
	f.Want(0, []string{"5 done, 0 refused"}, "bulk", "delete", "-q", other, "--yes")
	made := commandtest.Decode[api.Bulk](f, f.Must("bulk", "cancel", "-q", other, "--yes", "--detach", "-o", "json"))
	f.Want(0, []string{"done"}, "bulk", "watch", made.ID)
	f.Want(0, []string{made.ID, "cancel", "done"}, "bulk", "get", made.ID)
	f.Want(0, []string{made.ID, "done"}, "bulk", "stop", made.ID)
	f.Want(0, []string{made.ID, "set_priority"}, "bulk")
	f.Want(1, []string{"filter.state", "for jobs that are live"}, "bulk", "cancel", "--state", "completed", "--yes")
}
