package submits_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A tenant whose lock, or whose schedule, another session holds delays its own ticks: those of others are
// worked off, and the duty goes on without a sleep.
func TestAHeldTenantDelaysNoOtherTenantsTicks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	held, free := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	if err := f.Store.Queues.Put(t.Context(), held, "capped", api.QueueRequest{MaxActive: new(int64(1000))}); err != nil {
		t.Fatal(err)
	}
	f.Refresh()
	hour := time.Hour.Milliseconds()
	for owner, queue := range map[uuid.UUID]string{held: "capped", free: "free"} {
		if _, err := f.D.PutSchedule(t.Context(), owner, "", "s", api.ScheduleRequest{EveryMS: &hour, Job: api.ScheduleJob{Type: "x", Queue: queue}}); err != nil {
			t.Fatal(err)
		}
	}
	holds := map[string]func() (string, any){
		"its lock": func() (string, any) {
			return `SELECT pg_advisory_xact_lock($1)`, f.Store.LockKey(store.LockSubmit, held)
		},
		"its schedule": func() (string, any) { return `SELECT FROM schedules WHERE tenant_id = $1 FOR UPDATE`, held },
	}
	for name, hold := range holds {
		f.Exec(`UPDATE schedules SET next_at = now(), due_at = now()`)
		f.Exec(`DELETE FROM schedule_runs`)
		holder, err := celltest.Connect(t, f.URL).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sql, key := hold()
		if _, err := holder.Exec(t.Context(), sql, key); err != nil {
			t.Fatal(err)
		}
		run, err := f.D.RunSchedules(t.Context(), 100)
		if err != nil || run.Due != 2 || run.Worked != 1 || run.Contended {
			t.Errorf("%s is held: %+v, %v", name, run, err)
		}
		if run, err = f.D.RunSchedules(t.Context(), 100); err != nil || run.Worked != 0 || !run.Contended {
			t.Errorf("%s is held, and no other is due: %+v, %v", name, run, err)
		}
		if err := holder.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if run, err = f.D.RunSchedules(t.Context(), 100); err != nil || run.Worked != 1 {
			t.Errorf("%s is free again: %+v, %v", name, run, err)
		}
	}
}
