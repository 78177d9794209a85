package move_test

import (
	"slices"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/move"
)

// A workflow that changes while its tenant is moved is copied again, as it is now.
func TestAWorkflowThatChangesMoves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Inhabit(f.Tenant)
	f.upTo(move.Changes, other) // the history is copied, and changes are noted
	f.Exec(`UPDATE workflows SET metadata = '{"changed":true}' WHERE tenant_id = $1`, f.Tenant)
	f.Exec(`INSERT INTO workflow_jobs (workflow_id, ref, job_id) SELECT id, 'late', gen_random_uuid() FROM workflows WHERE tenant_id = $1`, f.Tenant)
	had := contents(f.Fixture, f.Tenant)
	f.mustMove(other)
	has := contents(f.there, f.Tenant)
	for _, table := range []string{"workflows", "workflow_jobs"} {
		if len(had[table]) == 0 || !slices.Equal(had[table], has[table]) {
			t.Errorf("%s are\n%v\nand were\n%v", table, has[table], had[table])
		}
	}
}
