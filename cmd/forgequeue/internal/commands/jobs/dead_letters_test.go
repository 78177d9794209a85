package jobs_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// dead makes dead letters in a queue of their own, which is then paused.
func dead(f *commandtest.Fixture, count int) (queue string, ids []string) {
	f.Helper()
	queue = f.Queue()
	jobs := make([]api.SubmitRequest, count)
	for i := range jobs {
		jobs[i] = api.SubmitRequest{Type: "dead", Queue: queue}
	}
	answer, err := f.Client().SubmitBatch(f.Context(), api.BatchRequest{Jobs: jobs})
	if err != nil || answer.Accepted != count {
		f.Fatal(answer.Accepted, err)
	}
	most := 1000
	claimed, err := f.Client().Claim(f.Context(), api.ClaimRequest{WorkerID: "killer-" + queue, Queues: []string{queue}, Max: &most})
	if err != nil || len(claimed.Jobs) != count {
		f.Fatal(len(claimed.Jobs), err)
	}
	outcomes := make([]api.OutcomeRequest, count)
	for i, job := range claimed.Jobs {
		ids = append(ids, job.ID)
		outcomes[i] = api.OutcomeRequest{
			JobID: job.ID, Kind: api.KindFail, LeaseToken: job.LeaseToken, Permanent: true, Error: &api.JobError{Type: "test", Message: "dead"},
		}
	}
	if _, err := f.Client().Outcomes(f.Context(), outcomes); err != nil {
		f.Fatal(err)
	}
	return queue, ids
}

func deadIn(f *commandtest.Fixture, queue string) int {
	f.Helper()
	return len(commandtest.Decode[api.Page[api.DeadLetter]](f, f.Must("dead-letters", "list", "-q", queue, "--limit", "0", "-o", "json")).Items)
}

func TestDeadLettersByID(t *testing.T) {
	f := commandtest.New(t)
	q, ids := dead(f, 4)
	f.Want(0, []string{ids[0], "permanent", "test: dead"}, "dead-letters", "list", "-q", q)
	f.Want(0, []string{"2 would be queued again"}, "dead-letters", "redrive", ids[0], ids[1], "--dry-run")
	if matched := commandtest.Decode[api.Matched](f, f.Must("dead-letters", "redrive", ids[0], ids[1], "--dry-run", "-o", "json")); matched.Matched != 2 {
		t.Errorf("%+v", matched)
	}
	f.Want(0, []string{"2 queued again, 0 refused"}, "dead-letters", "redrive", ids[0], ids[1])
	r := f.Want(1, []string{ids[0] + ": not_dead: ", "1 queued again, 1 refused"}, "dead-letters", "redrive", ids[0], ids[2])
	if strings.Contains(r.Err, "see above") {
		t.Errorf("%s", r.Err)
	}
	f.Want(2, []string{"--yes"}, "dead-letters", "discard", ids[3])
	if n := deadIn(f, q); n != 1 {
		t.Errorf("%d are left", n)
	}
	answer := commandtest.Decode[api.DeadLetterResponse](f, f.Must("dead-letters", "discard", ids[3], "--yes", "-o", "json"))
	if len(answer.Results) != 1 || answer.Results[0].Problem != nil || deadIn(f, q) != 0 {
		t.Errorf("%+v", answer)
	}
}

// By filter the server does it, and the command watches.
func TestDeadLettersByFilter(t *testing.T) {
	f := commandtest.New(t)
	q, ids := dead(f, 450)
	f.Want(0, []string{"450 would be discarded"}, "dead-letters", "discard", "-q", q, "--dry-run")
	f.Want(2, []string{"it would be 450", "--yes"}, "dead-letters", "discard", "-q", q, "--type", "dead")
	f.Want(0, []string{"0 discarded, 0 refused"}, "dead-letters", "discard", "-q", q, "--reason", "exhausted", "--yes")
	f.Want(0, []string{"0 queued again"}, "dead-letters", "redrive", "-q", q, "--died-before", "1h")
	r := f.Run("dead-letters", "redrive", "-q", q, "--died-after", "1h", "-o", "json")
	answer := commandtest.Decode[api.Redrive](f, r.Out)
	if r.Code != 0 || answer.State != api.RedriveDone || answer.Done != int64(len(ids)) || deadIn(f, q) != 0 {
		t.Errorf("%+v, %d left", answer, deadIn(f, q))
	}
	f.Want(0, []string{answer.ID, "done", "450"}, "redrives", "get", answer.ID)
	f.Want(0, []string{"450 queued again, 0 refused"}, "redrives", "watch", answer.ID)
	f.Want(0, []string{answer.ID, "ACTION"}, "redrives")
	f.Want(0, []string{"done"}, "redrives", "cancel", answer.ID)
	if job := f.State(ids[7]); job.State != api.StateQueued || job.Redrives != 1 {
		t.Errorf("%+v", job)
	}
	other, _ := dead(f, 201)
	f.Want(0, []string{"201 discarded, 0 refused"}, "dead-letters", "discard", "-q", other, "--yes")
	if n := deadIn(f, other); n != 0 {
		t.Error(n)
	}
}

func TestDeadLettersWantToKnowWhich(t *testing.T) {
	f := commandtest.New(t)
	for _, verb := range []string{"redrive", "discard"} {
		f.Want(2, []string{"name ids, or a filter"}, "dead-letters", verb)
		f.Want(2, []string{"do not go together"}, "dead-letters", verb, "some-id", "-q", "x")
		f.Want(2, []string{"do not go together"}, "dead-letters", verb, "--all", "-q", "x")
		f.Want(2, []string{"apply to --all or a filter only"}, "dead-letters", verb, "some-id", "--rate", "5")
	}
	f.Want(2, []string{"applies to --all or a filter only"}, "dead-letters", "redrive", "some-id", "--canary", "5")
	f.Want(2, []string{"--success requires --canary"}, "dead-letters", "redrive", "--all", "--success", "0.5")
	f.Want(2, []string{"--canary 0: must be 1 or more"}, "dead-letters", "redrive", "--queue", "none", "--canary", "0")
	f.Want(2, []string{"--success 90: must be above 0"}, "dead-letters", "redrive", "--queue", "none", "--canary", "2", "--success", "90", "--dry-run")
	f.Want(2, []string{"unknown flag"}, "dead-letters", "discard", "--all", "--canary", "5")
}

func TestRedriveCanBeCancelled(t *testing.T) {
	f := commandtest.New(t)
	q, _ := dead(f, 20)
	f.Want(0, []string{"20", "permanent", "test: dead"}, "dead-letters", "groups", "-q", q)
	if ids := strings.Fields(f.Must("dead-letter", "-q", q, "-o", "name")); len(ids) != 20 {
		t.Errorf("names of 20 dead letters: %v", ids)
	}
	made := commandtest.Decode[api.Redrive](f, f.Must("dead-letters", "redrive", "-q", q, "--rate", "0.5", "--detach", "-o", "json"))
	if made.State != api.RedriveRunning || made.Matched != 20 {
		t.Fatalf("%+v", made)
	}
	f.Want(4, []string{"has not ended within 400ms"}, "redrive", "watch", made.ID, "--wait-timeout", "400ms")
	f.Want(0, []string{"cancelled"}, "redrives", "cancel", made.ID)
	f.Want(1, []string{"was cancelled"}, "redrives", "watch", made.ID)
	f.Want(0, []string{"redrive.cancel", made.ID}, "audit", "--object", made.ID)
	f.Want(0, []string{"redrive.create", made.ID}, "audit", "--operator", "--object", made.ID)
	f.Want(2, []string{"--operator"}, "audit", "--tenant", "t")
	f.Want(1, []string{"not_found"}, "redrives", "get", "nonsense")
}

// With a canary a sample is queued first; the command says how it went.
func TestRedriveWithACanary(t *testing.T) {
	f := commandtest.New(t)
	q, _ := dead(f, 20)
	f.Want(0, []string{"20 would be queued again, a sample of 4 first"}, "dead-letters", "redrive", "-q", q, "--canary", "4", "--dry-run")
	begin := func() api.Redrive {
		t.Helper()
		return commandtest.Decode[api.Redrive](f, f.Must("dead-letters", "redrive", "-q", q, "--canary", "4", "--success", "0.5", "--detach", "-o", "json"))
	}
	end := func(outcome func(api.ClaimedJob) api.OutcomeRequest) {
		t.Helper()
		for left := 4; left > 0; {
			claimed, err := f.Client().Claim(f.Context(), api.ClaimRequest{WorkerID: "canary", Queues: []string{q}, Max: new(left), WaitMS: new(int64(10_000))})
			if err != nil {
				t.Fatal(err)
			}
			for _, job := range claimed.Jobs {
				left--
				if _, err := f.Client().Outcomes(f.Context(), []api.OutcomeRequest{outcome(job)}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	stopped := begin()
	end(func(job api.ClaimedJob) api.OutcomeRequest {
		return api.OutcomeRequest{JobID: job.ID, Kind: api.KindFail, LeaseToken: job.LeaseToken, Permanent: true, Error: &api.JobError{Type: "Closed", Message: "still"}}
	})
	f.Want(1, []string{"4 queued again", "stopped after its sample", "Of 4 jobs in the sample 0 completed", "Closed: still"}, "redrives", "watch", stopped.ID)
	f.Want(0, []string{"stopped", "failed: 4 of 4 jobs were queued, 0 completed", "reason"}, "redrives", "get", stopped.ID)
	passed := begin()
	end(func(job api.ClaimedJob) api.OutcomeRequest {
		return api.OutcomeRequest{JobID: job.ID, Kind: api.KindComplete, LeaseToken: job.LeaseToken}
	})
	f.Want(0, []string{"20 queued again, 0 refused"}, "redrives", "watch", passed.ID)
	if n := deadIn(f, q); n != 0 {
		t.Errorf("%d are left", n)
	}
}
