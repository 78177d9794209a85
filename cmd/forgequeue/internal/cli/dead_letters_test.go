package cli_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// dead makes dead letters in a queue of their own, which is then paused.
func (f *fixture) dead(count int) (queue string, ids []string) {
	f.Helper()
	queue = f.queue()
	jobs := make([]api.SubmitRequest, count)
	for i := range jobs {
		jobs[i] = api.SubmitRequest{Type: "dead", Queue: queue}
	}
	answer, err := f.client().SubmitBatch(f.Context(), api.BatchRequest{Jobs: jobs})
	if err != nil || answer.Accepted != count {
		f.Fatal(answer.Accepted, err)
	}
	most := 1000
	claimed, err := f.client().Claim(f.Context(), api.ClaimRequest{WorkerID: "killer-" + queue, Queues: []string{queue}, Max: &most})
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
	if _, err := f.client().Outcomes(f.Context(), outcomes); err != nil {
		f.Fatal(err)
	}
	return queue, ids
}

func (f *fixture) deadIn(queue string) int {
	f.Helper()
	return len(decodeAs[api.Page[api.DeadLetter]](f, f.must("dead-letters", "list", "-q", queue, "--limit", "0", "-o", "json")).Items)
}

func TestDeadLettersByID(t *testing.T) {
	f := newFixture(t)
	q, ids := f.dead(4)
	f.want(0, []string{ids[0], "permanent", "test: dead"}, "dead-letters", "list", "-q", q)
	f.want(0, []string{"2 would be queued again"}, "dead-letters", "redrive", ids[0], ids[1], "--dry-run")
	if matched := decodeAs[api.Matched](f, f.must("dead-letters", "redrive", ids[0], ids[1], "--dry-run", "-o", "json")); matched.Matched != 2 {
		t.Errorf("%+v", matched)
	}
	f.want(0, []string{"2 queued again, 0 refused"}, "dead-letters", "redrive", ids[0], ids[1])
	r := f.want(1, []string{ids[0] + ": not_dead: ", "1 queued again, 1 refused"}, "dead-letters", "redrive", ids[0], ids[2])
	if strings.Contains(r.err, "see above") {
		t.Errorf("%s", r.err)
	}
	f.want(2, []string{"--yes"}, "dead-letters", "discard", ids[3])
	if n := f.deadIn(q); n != 1 {
		t.Errorf("%d are left", n)
	}
	answer := decodeAs[api.DeadLetterResponse](f, f.must("dead-letters", "discard", ids[3], "--yes", "-o", "json"))
	if len(answer.Results) != 1 || answer.Results[0].Problem != nil || f.deadIn(q) != 0 {
		t.Errorf("%+v", answer)
	}
}

// By filter the server does it, and the command watches.
func TestDeadLettersByFilter(t *testing.T) {
	f := newFixture(t)
	q, ids := f.dead(450)
	f.want(0, []string{"450 would be discarded"}, "dead-letters", "discard", "-q", q, "--dry-run")
	f.want(2, []string{"it would be 450", "--yes"}, "dead-letters", "discard", "-q", q, "--type", "dead")
	f.want(0, []string{"0 discarded, 0 refused"}, "dead-letters", "discard", "-q", q, "--reason", "exhausted", "--yes")
	f.want(0, []string{"0 queued again"}, "dead-letters", "redrive", "-q", q, "--before", "1h")
	r := f.run("dead-letters", "redrive", "-q", q, "--after", "1h", "-o", "json")
	answer := decodeAs[api.Redrive](f, r.out)
	if r.code != 0 || answer.State != api.RedriveDone || answer.Done != int64(len(ids)) || f.deadIn(q) != 0 {
		t.Errorf("%+v, %d left", answer, f.deadIn(q))
	}
	f.want(0, []string{answer.ID, "done", "450"}, "redrives", "get", answer.ID)
	f.want(0, []string{"450 queued again, 0 refused"}, "redrives", "watch", answer.ID)
	f.want(0, []string{answer.ID, "ACTION"}, "redrives")
	f.want(0, []string{"done"}, "redrives", "cancel", answer.ID)
	if job := f.state(ids[7]); job.State != api.StateQueued || job.Redrives != 1 {
		t.Errorf("%+v", job)
	}
	other, _ := f.dead(201)
	f.want(0, []string{"201 discarded, 0 refused"}, "dead-letters", "discard", "-q", other, "--yes")
	if n := f.deadIn(other); n != 0 {
		t.Error(n)
	}
}

func TestDeadLettersWantToKnowWhich(t *testing.T) {
	f := newFixture(t)
	for _, verb := range []string{"redrive", "discard"} {
		f.want(2, []string{"name ids, or a filter"}, "dead-letters", verb)
		f.want(2, []string{"do not go together"}, "dead-letters", verb, "some-id", "-q", "x")
		f.want(2, []string{"do not go together"}, "dead-letters", verb, "--all", "-q", "x")
		f.want(2, []string{"go with a filter"}, "dead-letters", verb, "some-id", "--rate", "5")
	}
}

func TestRedriveCanBeCancelled(t *testing.T) {
	f := newFixture(t)
	q, _ := f.dead(20)
	f.want(0, []string{"20", "permanent", "test: dead"}, "dead-letters", "groups", "-q", q)
	made := decodeAs[api.Redrive](f, f.must("dead-letters", "redrive", "-q", q, "--rate", "0.5", "--detach", "-o", "json"))
	if made.State != api.RedriveRunning || made.Matched != 20 {
		t.Fatalf("%+v", made)
	}
	f.want(0, []string{"cancelled"}, "redrives", "cancel", made.ID)
	f.want(1, []string{"was cancelled"}, "redrives", "watch", made.ID)
	f.want(0, []string{"redrive.cancel", made.ID}, "audit", "--object", made.ID)
	f.want(0, []string{"redrive.create", made.ID}, "audit", "--operator", "--object", made.ID)
	f.want(2, []string{"--operator"}, "audit", "--tenant", "t")
	f.want(1, []string{"not_found"}, "redrives", "get", "nonsense")
}
