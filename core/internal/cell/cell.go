// Package cell is one database of an installation, with the statements of each package.
package cell

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/amend"
	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/budget"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobs/ended"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/keys"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/ledger"
	"github.com/forgequeue/forgequeue/core/internal/mask"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/schedule"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
	"github.com/forgequeue/forgequeue/core/internal/webhook/alerts"
	"github.com/forgequeue/forgequeue/core/internal/webhook/events"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
)

// Options are the settings of a cell.
type Options struct {
	store.Options
	// Retention is the retention of ended things.
	Retention retention.Periods
	// Attempts asks for the log line of each attempt that ends, as Tracing does for its span.
	Attempts bool
}

// Cell is a database: Store is its connections, each field has the statements of a package.
type Cell struct {
	*store.Store

	Tenants      *tenants.Tenants
	Keys         *keys.Keys
	Queues       *queues.Queues
	Lanes        *lanes.Lanes
	Workers      *workers.Workers
	JobTypes     *jobtypes.Types
	Audit        *audit.Log
	Processes    *installation.Registry
	Submits      *submit.Submitter
	Claims       *claim.Claimer
	Jobs         *jobs.Jobs
	Edits        *amend.Edits
	EndedJobs    *ended.Jobs
	JobReads     *read.Reader
	Counts       *caps.Counts
	DeadLetters  *deadletter.Letters
	Dependencies *dependency.Edges
	Gates        *gate.Gate
	Budgets      *budget.Budgets
	Workflows    *workflow.Workflows
	Schedules    *schedule.Schedules
	Webhooks     *webhook.Hooks
	Masks        *mask.Masks
	Alerts       *alerts.Alerts
	Events       *events.Events
	Stats        *stats.Stats
	Ledger       *ledger.Ledger
	Retention    *retention.Forgetter
}

// Open connects, and refuses a server that is too old or can lose acknowledged work.
func Open(ctx context.Context, options Options) (*Cell, error) {
	db, err := store.Open(ctx, options.Options)
	if err != nil {
		return nil, err
	}
	counts := caps.New(db)
	edges := dependency.New(db)
	gates := gate.New(db)
	appended := &events.Events{}
	updates := jobs.New(db, counts, edges, gates, appended, options.Attempts || options.Tracing != nil)
	reads := &read.Reader{Store: db}
	submits := submit.New(db, counts, edges, gates)
	types := &jobtypes.Types{Store: db}
	masks := mask.New(types)
	c := &Cell{
		Store:        db,
		Tenants:      &tenants.Tenants{Store: db},
		Keys:         &keys.Keys{Store: db},
		Queues:       &queues.Queues{Store: db, Gates: gates},
		Lanes:        &lanes.Lanes{Store: db},
		Workers:      &workers.Workers{Store: db},
		JobTypes:     types,
		Audit:        &audit.Log{Store: db},
		Processes:    &installation.Registry{Store: db},
		Submits:      submits,
		Claims:       claim.New(db, counts, gates),
		Jobs:         updates,
		Edits:        amend.New(db, counts, gates),
		EndedJobs:    ended.New(db, edges, gates),
		JobReads:     reads,
		Counts:       counts,
		DeadLetters:  deadletter.New(db, counts, reads, edges, gates, options.Retention.DeadLetters),
		Dependencies: edges,
		Gates:        gates,
		Budgets:      budget.New(db),
		Workflows:    &workflow.Workflows{Store: db},
		Schedules:    schedule.New(db, submits),
		Webhooks:     &webhook.Hooks{Store: db, Masks: masks},
		Masks:        masks,
		Alerts:       &alerts.Alerts{Store: db},
		Events:       appended,
		Stats:        &stats.Stats{Store: db},
		Ledger:       &ledger.Ledger{Store: db},
		Retention:    retention.New(db, options.Retention),
	}
	db.OnMissingPartition(c.Retention.MakePartitions)
	return c, nil
}

// Migrate brings the schema to this binary's version, creates the partitions of the next days, and
// resets foreign counters. It returns the versions that it applied.
func (c *Cell) Migrate(ctx context.Context) ([]int64, error) {
	applied, err := c.Store.Migrate(ctx)
	if err != nil {
		return applied, err
	}
	if err := c.Retention.MakePartitions(ctx); err != nil {
		return applied, err
	}
	return applied, c.Counts.ResetForeignCounters(ctx)
}
