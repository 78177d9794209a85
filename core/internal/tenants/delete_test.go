package tenants_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func (f *fixture) wantSound(when string) {
	f.Helper()
	drifts, err := f.Store.Counts.Verify(f.Context())
	if err != nil || len(drifts) > 0 {
		f.Errorf("%s: %v, %v", when, drifts, err)
	}
	waits, err := f.Store.Dependencies.VerifyDependencies(f.Context())
	if err != nil || len(waits) > 0 {
		f.Errorf("%s: %v, %v", when, waits, err)
	}
}

// All of a deleted tenant goes, step by step, whichever core takes the next one and wherever one stops; what is
// another tenant's stays, and the counts are right after each step.
func TestADeletedTenantLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone, stays := f.NewTenant(), f.NewTenant()
	f.Inhabit(gone)
	f.Inhabit(stays)
	had, others := f.RowsOf(gone), f.RowsOf(stays)
	for table, n := range had {
		if n == 0 {
			t.Errorf("the tenant has no %s: the test shows nothing of it", table)
		}
	}
	ctx := audit.WithActor(t.Context(), audit.Actor{Kind: "operator"})
	for range 2 {
		shown, err := f.Store.Tenants.Delete(ctx, gone)
		if err != nil || shown.Deletion == nil || shown.Deletion.State != api.DeletionRunning {
			t.Fatalf("%+v, %v", shown, err)
		}
	}
	if _, err := f.Store.Keys.Lookup(t.Context(), "k"+gone.String()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its key: %v", err)
	}
	_, err := f.Store.Keys.Create(t.Context(), hop.CreateKeyRequest{KeyID: "late", Kind: "tenant", Tenant: gone.String(), Scopes: []string{"read"}, SecretHMAC: make([]byte, 32)})
	if !errors.Is(err, tenants.ErrDeleted) {
		t.Errorf("a new key: %v", err)
	}
	if due, err := f.Store.Schedules.DueSchedules(t.Context(), 10); err != nil || len(due) > 0 {
		t.Errorf("due schedules: %v, %v", due, err)
	}
	cores := []*cell.Cell{f.Store, celltest.OpenURL(t, f.URL)}
	removed := 0
	var places [2]tenants.RemovalPlace // each core has its own
	for step := 0; ; step++ {
		n, next, err := cores[step%2].Tenants.RemoveData(t.Context(), gone, places[step%2], 1+step%3)
		places[step%2] = next
		if err != nil {
			t.Fatal(err)
		}
		f.wantSound(fmt.Sprintf("step %d", step))
		if removed += n; n == 0 {
			break
		}
	}
	if shown, err := f.Store.Tenants.Get(t.Context(), gone); err != nil || shown.Deletion.State != api.DeletionRunning || shown.Deletion.Removed != int64(removed) {
		t.Errorf("before others have settled: %+v, %v", shown.Deletion, err)
	}
	// A job that a core stored with what it had cached goes too.
	f.Submit(f.Job())
	f.Exec(`UPDATE jobs SET tenant_id = $1 WHERE tenant_id = $2`, gone, f.Tenant)
	f.Exec(`UPDATE tenants SET deleting_at = deleting_at - interval '3 minutes' WHERE id = $1`, gone)
	for {
		n, next, err := cores[0].Tenants.RemoveData(t.Context(), gone, places[0], 100)
		if places[0] = next; err != nil {
			t.Fatal(err)
		} else if n == 0 {
			break
		}
	}
	shown, err := f.Store.Tenants.Get(t.Context(), gone)
	if err != nil || shown.Deletion.State != api.DeletionDone || shown.Deletion.EndedAt == nil || shown.Deletion.Removed <= int64(removed) {
		t.Errorf("%+v, %v", shown.Deletion, err)
	}
	for table, n := range f.RowsOf(gone) {
		if n > 0 != (table == "audit_log") {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	for table, n := range f.RowsOf(stays) {
		if n != others[table] {
			t.Errorf("another tenant has %d rows in %s, and had %d", n, table, others[table])
		}
	}
	if n := f.Count("dependencies") + f.Count("workflow_jobs"); n != 2 {
		t.Errorf("%d edges and refs are left", n)
	}
	f.wantSound("at the end")
	if page, err := f.Store.Tenants.List(t.Context(), uuid.Max, 10); err != nil || strings.Contains(fmt.Sprint(page), gone.String()) {
		t.Errorf("the list: %v, %v", page, err)
	}
	if again, err := f.Store.Tenants.Delete(ctx, gone); err != nil || again.Deletion.State != api.DeletionDone {
		t.Errorf("again: %+v, %v", again, err)
	}
	if ids, err := f.Store.Tenants.Deleting(t.Context(), 10); err != nil || len(ids) > 0 {
		t.Errorf("still to be removed: %v, %v", ids, err)
	}
	if _, err := f.Store.Tenants.Delete(ctx, uuid.New()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
}
