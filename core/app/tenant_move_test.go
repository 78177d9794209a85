package app_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// atPhase ends a move that says that it is in a phase.
type atPhase struct {
	slog.Handler
	phase string
	end   context.CancelFunc
}

func (atPhase) Enabled(context.Context, slog.Level) bool { return true }

func (h atPhase) Handle(_ context.Context, said slog.Record) error {
	said.Attrs(func(a slog.Attr) bool {
		if a.Key == "phase" && a.Value.String() == h.phase {
			h.end()
		}
		return true
	})
	return nil
}

// What cannot be moved is refused with words that say why, and nothing is changed.
func TestMovesThatAreRefused(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second", "third")
	core := start(t, in.config()).at("first")
	tenants := in.tenantsIn(core)
	gone := must[api.Tenant](core, hop.CreateTenant.Path, operator, hop.WithID[api.TenantRequest]{
		ID: uuid.Must(uuid.NewV7()).String(), Value: api.TenantRequest{Name: "gone"},
	})
	must[api.Tenant](core, hop.DeleteTenant.Path, operator, hop.ID{ID: gone.ID})
	one := config(t, in.urls[0])
	away := in.config()
	in.write(func(entries []map[string]any) {
		entries[2]["dsn"] = "postgres://forgequeue@127.0.0.1:1/none?connect_timeout=2"
	})
	away.Cells = in.file
	for name, refused := range map[string]struct {
		cfg     app.Config
		request app.TenantMove
		says    string
	}{
		"no id":                  {away, app.TenantMove{Tenant: "acme", Cell: "second"}, "no tenant's id"},
		"no such tenant":         {away, app.TenantMove{Tenant: uuid.NewString(), Cell: "second"}, "no such tenant"},
		"no such cell":           {away, app.TenantMove{Tenant: tenants[0].Tenant, Cell: "fourth"}, `no cell "fourth"`},
		"the home cell's name":   {away, app.TenantMove{Tenant: tenants[0].Tenant, Cell: "first"}, "in this cell already"},
		"the same cell":          {away, app.TenantMove{Tenant: tenants[1].Tenant, Cell: "second"}, "in this cell already"},
		"deleted":                {away, app.TenantMove{Tenant: gone.ID, Cell: "second"}, "deleted"},
		"nothing to abort":       {away, app.TenantMove{Tenant: tenants[0].Tenant, Abort: true}, "not being moved"},
		"a cell without answers": {away, app.TenantMove{Tenant: tenants[0].Tenant, Cell: "third"}, "third"},
		"one database":           {one, app.TenantMove{Tenant: tenants[0].Tenant, Cell: "second"}, "FORGEQUEUE_CELLS is not set"},
	} {
		if err := app.MoveTenant(t.Context(), refused.cfg, refused.request); err == nil || !strings.Contains(err.Error(), refused.says) {
			t.Errorf("%s: %v, want %q", name, err, refused.says)
		}
	}
	if n := in.count(0, `SELECT count(*) FROM tenant_moves`); n > 0 {
		t.Errorf("%d moves have begun", n)
	}
}

// When the old cell has let the tenant go it is refused, and others are not. An abort lets it go on where it was; run to its end, the move lets it
// go on in the new cell, in every core.
func TestAMoveWhileCoresRun(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second")
	cores := []*running{start(t, in.config()), start(t, in.config())}
	tenants := in.tenantsIn(cores[0].at("first"))
	moved, stays := tenants[0], tenants[1]
	cell := map[string]string{moved.Tenant: "first", stays.Tenant: "second"}
	submit := func(core *running, owner hop.Principal) *problem.Problem {
		request, _ := jobOf()
		return askOr[api.SubmitResponse](core.at(cell[owner.Tenant]), hop.SubmitJobs.Path, owner, request).Problem
	}
	request := app.TenantMove{Tenant: moved.Tenant, Cell: "second"}
	upTo := func(phase string) {
		t.Helper()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		cfg := in.config()
		cfg.Logger = slog.New(atPhase{slog.DiscardHandler, phase, end})
		if err := app.MoveTenant(ctx, cfg, request); !errors.Is(err, context.Canceled) || in.count(0, `SELECT count(*) FROM tenant_moves WHERE phase = $1`, phase) != 1 {
			t.Fatalf("up to %s: %v", phase, err)
		}
	}
	for _, core := range cores {
		if refused := submit(core, moved); refused != nil {
			t.Fatal(refused)
		}
	}
	upTo("left")
	for _, core := range cores {
		refused := submit(core, moved)
		if refused == nil || refused.Code != problem.TenantMoving || refused.Status != http.StatusServiceUnavailable {
			t.Errorf("submit during the move: %+v", refused)
		}
		if refused := submit(core, stays); refused != nil {
			t.Errorf("another tenant's: %+v", refused)
		}
	}
	if err := app.MoveTenant(t.Context(), in.config(), app.TenantMove{Tenant: moved.Tenant, Abort: true}); err != nil {
		t.Fatal(err)
	}
	for _, core := range cores { // which leaves out for a moment who was refused
		celltest.Eventually(t, "a submit to be accepted after the abort", func() bool { return submit(core, moved) == nil })
	}
	parked := make(chan hop.Result[api.ClaimResponse], 1)
	waiting := claimOf("w", api.MaxWait)
	waiting.Queues = []string{"later"}
	go func() { parked <- ask[api.ClaimResponse](cores[1].at("first"), hop.ClaimJobs.Path, moved, waiting) }()
	celltest.Eventually(t, "the claim to wait in the old cell", func() bool { return in.count(0, `SELECT count(*) FROM workers WHERE worker_id = 'w'`) == 1 })
	upTo("switched")
	celltest.Eventually(t, "the old cell to refuse the tenant", func() bool {
		refused := submit(cores[1], moved)
		return refused != nil && refused.Code == problem.TenantMoving
	})
	cell[moved.Tenant] = "second"
	for _, core := range cores {
		celltest.Eventually(t, "a submit to be accepted after the switch", func() bool { return submit(core, moved) == nil })
	}
	// the claim that waits in the old cell ends there, and its worker asks the new one
	if claimed := <-parked; claimed.Problem != nil || len(claimed.Value.Jobs) > 0 {
		t.Errorf("the claim that waited: %+v", claimed)
	}
	if n := in.count(1, `SELECT count(*) FROM jobs WHERE tenant_id = $1`, moved.Tenant); n != 6 {
		t.Errorf("%d jobs are in the new cell, 6 were accepted", n)
	}
	if late := app.MoveTenant(t.Context(), in.config(), app.TenantMove{Tenant: moved.Tenant, Abort: true}); late == nil || !strings.Contains(late.Error(), "cannot be aborted") {
		t.Errorf("an abort after the switch: %v", late)
	}
	if got := must[api.Tenant](cores[1].at("first"), hop.GetTenant.Path, operator, hop.ID{ID: moved.Tenant}); got.Cell != "second" {
		t.Errorf("the tenant is in %q", got.Cell)
	}
}
