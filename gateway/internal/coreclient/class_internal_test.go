package coreclient

import (
	"testing"

	"github.com/forgequeue/forgequeue/shared/hop"
)

// Reads are shed before writes: what a gateway counts for its limits, and its report that it runs, are lost otherwise
// exactly when they matter.
func TestWritesAreNotOfTheClassesThatAreShedFirst(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]class{
		hop.RecordLimitUses: classSubmit, hop.ReportProcess: classSubmit, hop.SubmitJobs: classSubmit, hop.Heartbeat: classLease,
	} {
		if got := classOf(path, writes); got != want {
			t.Errorf("%s is of the class %v, want %v", path, got, want)
		}
	}
	for _, path := range []string{hop.ListJobs, hop.ListQueues, hop.GetStats} {
		if got := classOf(path, reads); got != classList {
			t.Errorf("%s is of the class %v", path, got)
		}
	}
}
