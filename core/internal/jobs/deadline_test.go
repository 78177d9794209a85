package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestDeadlineExpiresWaitingAndRunning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	deadline := time.Now().Add(time.Hour)
	with := func(j *submit.NewJob) { j.Deadline = &deadline }
	ids := f.Submit(f.Job(with), f.Job(with), f.Job(with, func(j *submit.NewJob) { j.Delay = time.Minute }), f.Job())
	running := f.ClaimOne()
	f.Exec(`UPDATE jobs SET deadline = statement_timestamp() - interval '1 second' WHERE deadline IS NOT NULL`)
	if got := f.Claim(10, time.Minute); len(got) != 1 || got[0].ID != ids[3] {
		t.Errorf("a job past its deadline was claimed: %+v", got)
	}
	expired, err := f.Store.Jobs.ExpireDeadlines(t.Context(), jobs.AllTime, 10)
	if err != nil || len(expired) != 3 {
		t.Fatalf("%+v %v", expired, err)
	}
	for _, id := range ids[:3] {
		if got := f.Get(id); got.State != api.StateDeadLetter || *got.DeadReason != api.ReasonDeadline {
			t.Errorf("%+v", got.JobSummary)
		}
	}
	if ended := f.End(jobs.Ending{Lease: running.Lease(), Kind: api.KindComplete}); !errors.Is(ended.Err, jobs.ErrLeaseLost) {
		t.Errorf("the holder's outcome: %+v", ended)
	}
}
