package administration

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/clock"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ReadInstallation reads the state of the installation. Cores and gateways, PostgreSQL as its statistics views
// show it, statements of cores that have run for more than a second, and the redrives by filter that go on.
// A few statements, whatever the backlog. `checks` has each cell's state where there are several; the
// gateway adds its own.
func (a *Administration) ReadInstallation(ctx context.Context, _ hop.Item[struct{}]) (api.Installation, error) {
	found := api.Installation{At: api.At(clock.Now()), Checks: map[string]string{}, Cells: []api.CellState{}}
	var err error
	var sinceYesterday bool
	if found.Postgres, found.Statements, sinceYesterday, err = a.Store.Processes.ServerState(ctx); err != nil {
		return api.Installation{}, err
	}
	if sinceYesterday { // what began on this day keeps none from being closed
		if found.Postgres.LedgerHeld, err = a.Store.Ledger.LedgerHeld(ctx); err != nil {
			return api.Installation{}, err
		}
	}
	processes, checked, err := a.Store.Processes.ReadRegistry(ctx)
	if err != nil {
		return api.Installation{}, err
	}
	found.Processes, found.Postgres.Verified, found.Postgres.Counted = processes, checked.Verified, checked.Counted
	const most = 50
	found.Redrives, err = a.Store.DeadLetters.RunningRedrives(ctx, most)
	return found, err
}

// ReportProcess records that a gateway runs, or that it is stopped. A gateway reports itself every 20 s,
// and once more when it is stopped. It is shown with the state of the installation, and nothing else
// depends on it.
//
//	@x-example-gateway {"id": "JBSWY3DPEHPK3PXPJBSWY3DPEH", "address": "gateway-1:8080", "version": "1.0.0", "age_ms": 20000}
func (a *Administration) ReportProcess(ctx context.Context, item hop.Item[hop.ProcessReport]) (struct{}, error) {
	asked := &item.Request
	if fields := asked.Validate(); len(fields) > 0 {
		return struct{}{}, problem.Invalid(fields...)
	}
	if asked.Stops {
		return struct{}{}, a.Store.Processes.ForgetProcess(ctx, asked.ID)
	}
	return struct{}{}, a.Store.Processes.ReportProcess(ctx, installation.Report{
		ID: asked.ID, Kind: api.ProcessGateway, Address: asked.Address, Version: asked.Version, Age: time.Duration(asked.AgeMS) * time.Millisecond,
	})
}
