package hop_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Reads are shed before writes: what a gateway counts for its limits, and its report that it runs, are lost otherwise
// exactly when they matter.
func TestWritesAreNotOfTheClassesThatAreShedFirst(t *testing.T) {
	t.Parallel()
	for op, want := range map[hop.Operation]hop.Class{
		hop.RecordLimitUses.Operation: hop.ClassSubmit, hop.ReportProcess.Operation: hop.ClassSubmit, hop.SubmitJobs.Operation: hop.ClassSubmit,
		hop.PutQueue.Operation: hop.ClassSubmit, hop.Heartbeat.Operation: hop.ClassLease, hop.ReportOutcomes.Operation: hop.ClassLease,
		hop.LookUpKey.Operation: hop.ClassKey, hop.ClaimJobs.Operation: hop.ClassClaim, hop.RegisterWorker.Operation: hop.ClassClaim, hop.Leave.Operation: hop.ClassClaim,
		hop.GetJob.Operation: hop.ClassRead, hop.ListJobs.Operation: hop.ClassList, hop.GetStats.Operation: hop.ClassList, hop.GetReadiness.Operation: hop.ClassProbe,
	} {
		if op.Class != want {
			t.Errorf("%s is of the class %v, want %v", op.Path, op.Class, want)
		}
	}
}

// What a lost reply means may depend on the request.
func TestEffectOfARequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ got, want hop.Effect }{
		"a submit":           {hop.SubmitJobs.Of(hop.SubmitJobsRequest{}).Effect, hop.Writes},
		"a keyed submit":     {hop.SubmitJobs.Of(hop.SubmitJobsRequest{Idempotency: &hop.Idempotency{}}).Effect, hop.Keyed},
		"a keyed rotation":   {hop.RotateWebhookSecret.Of(hop.OnceRequest{Idempotency: &hop.Idempotency{}}).Effect, hop.Keyed},
		"a redrive":          {hop.RedriveDeadLetters.Of(api.DeadLetterRequest{}).Effect, hop.Writes},
		"a redrive's number": {hop.RedriveDeadLetters.Of(api.DeadLetterRequest{DryRun: true}).Effect, hop.Reads},
		"an outcome":         {hop.ReportOutcomes.Of(api.OutcomesRequest{}).Effect, hop.Repeatable},
		"a raw claim":        {hop.Raw(hop.ClaimJobs).Of(api.ClaimRequest{}).Effect, hop.Writes},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v, want %v", name, test.got, test.want)
		}
	}
}
