package schedule_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/schedule"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// A listing reads the oldest of all tenants and some of each, and is bounded, however many tenants have due
// schedules. Those that it leaves out are listed once the others are worked off.
func TestAListingOfManyTenantsIsBounded(t *testing.T) {
	t.Parallel()
	const tenants, each, oldest = 300, 2 * schedule.DueFirsts, schedule.DueWindow
	f := newFixture(t)
	f.put("s", every(time.Hour))
	copyOf := func(n int, owner string, due time.Duration) {
		t.Helper()
		f.Exec(`INSERT INTO schedules SELECT (jsonb_populate_record(s, jsonb_build_object('tenant_id', `+owner+`, 'name', 'n' || n, 'due_at', now() - $1::interval))).*
			FROM schedules s, generate_series(1, $2) AS n WHERE name = 's'`, due, n)
	}
	copyOf(tenants*each, fmt.Sprintf("lpad(to_hex(n / %d), 32, '0')::uuid", each), time.Minute)
	copyOf(oldest, "gen_random_uuid()", time.Hour)
	f.Exec(`DELETE FROM schedules WHERE name = 's'`)

	type key struct {
		owner tenant.ID
		name  string
	}
	listed := map[key]bool{}
	for round := 0; len(listed) < tenants*each+oldest; round++ {
		due, err := f.Store.Schedules.DueSchedules(t.Context(), math.MaxInt)
		if err != nil || len(due) == 0 || len(due) > oldest+schedule.DueFirstsMost {
			t.Fatalf("round %d: %d are listed after %d, %v", round, len(due), len(listed), err)
		}
		if round == 0 && len(due) != oldest+schedule.DueFirstsMost {
			t.Errorf("%d are listed at first, want %d of the oldest and %d of tenants", len(due), oldest, schedule.DueFirstsMost)
		}
		for _, one := range due {
			if k := (key{one.TenantID, one.Name}); listed[k] {
				t.Fatalf("%v is listed twice", k)
			} else {
				listed[k] = true
			}
		}
		for some := range slices.Chunk(due, 500) { // a core postpones what one step had
			if err := f.Store.Schedules.PostponeSchedules(t.Context(), some, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
}
