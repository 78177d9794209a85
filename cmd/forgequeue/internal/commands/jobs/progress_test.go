package jobs_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What a worker reports is shown with the job, and is a line of its own while the job is watched.
func TestProgressIsShown(t *testing.T) {
	f := commandtest.New(t)
	queue, c := f.Queue(), f.Client()
	id := f.Submitted("export", "--queue", queue)
	claimed, err := c.Claim(t.Context(), api.ClaimRequest{WorkerID: "reporter", Queues: []string{queue}})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("%+v, %v", claimed, err)
	}
	var out, errs commandtest.Buffer
	ended := make(chan int, 1)
	go func() { ended <- f.Start(&out, &errs, "")(f.Context(), "job", "watch", id) }()
	f.Eventually("the watch has begun", func() bool { return strings.Contains(out.String(), "running") })
	percent, message := 40.0, "page 12 of 30"
	lease := api.Lease{
		JobID: id, LeaseToken: claimed.Jobs[0].LeaseToken, Checkpoint: []byte(`{"page":12}`), Progress: &api.Progress{Percent: &percent, Message: &message},
	}
	if beat, err := c.Heartbeat(t.Context(), "reporter", []api.Lease{lease}); err != nil || beat.Leases[0].Status != api.LeaseOK {
		t.Fatalf("%+v, %v", beat, err)
	}
	const shown = "[████████            ] 40 % page 12 of 30"
	f.Want(0, []string{"progress", shown, "checkpoint", `{"page":12}`}, "job", "get", id)
	f.Eventually("the progress is a line", func() bool { return strings.Contains(out.String(), shown) })
	if _, err := c.Complete(t.Context(), id, api.CompleteRequest{LeaseToken: lease.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != 0 || !strings.Contains(out.String(), "completed") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
}
