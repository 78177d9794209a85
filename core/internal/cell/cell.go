// Package cell is a database with all of core's statements. Today there is one.
package cell

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/delivery"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/drain"
	"github.com/forgequeue/forgequeue/core/internal/idempotency"
	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/ledger"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/schedule"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
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

// Cell has the statements of all packages, as its own methods.
type Cell struct {
	*store.Store
	*usage.Counts
	*directory.Directory
	*audit.Log
	*retention.Forgetter
	*idempotency.Keys
	*submit.Submitter
	*claim.Claimer
	*queue.Jobs
	*deadletter.Letters
	*dependency.Edges
	*workflow.Workflows
	*schedule.Schedules
	*webhook.Hooks
	*delivery.Deliverer
	*drain.Reports
	*stats.Stats
	*ledger.Ledger
	*jobtypes.Types
	*installation.Registry
}

// Open connects, and refuses a server that is too old or can lose acknowledged work.
func Open(ctx context.Context, options Options) (*Cell, error) {
	db, err := store.Open(ctx, options.Options)
	if err != nil {
		return nil, err
	}
	counts := usage.New(db)
	edges := dependency.New(db)
	hooks := webhook.New(db)
	jobs := queue.New(db, counts, edges, hooks, options.Attempts || options.Tracing != nil)
	submits := submit.New(db, counts, edges)
	c := &Cell{
		Store: db, Counts: counts, Directory: &directory.Directory{Store: db}, Log: &audit.Log{Store: db},
		Forgetter: retention.New(db, options.Retention), Keys: &idempotency.Keys{Store: db},
		Submitter: submits, Schedules: schedule.New(db, submits), Claimer: claim.New(db, counts), Jobs: jobs, Edges: edges, Workflows: &workflow.Workflows{Store: db},
		Hooks: hooks, Deliverer: delivery.New(db),
		Stats: &stats.Stats{Store: db}, Ledger: &ledger.Ledger{Store: db}, Reports: &drain.Reports{Store: db}, Types: &jobtypes.Types{Store: db},
		Registry: &installation.Registry{Store: db},
		Letters:  deadletter.New(db, counts, jobs, edges, options.Retention.DeadLetters),
	}
	db.OnMissingPartition(c.MakePartitions)
	return c, nil
}

// Migrate brings the schema to this binary's version, creates the partitions of the next days, and
// resets foreign counters. It returns the versions that it applied.
func (c *Cell) Migrate(ctx context.Context) ([]int64, error) {
	applied, err := c.Store.Migrate(ctx)
	if err != nil {
		return applied, err
	}
	if err := c.MakePartitions(ctx); err != nil {
		return applied, err
	}
	return applied, c.ResetForeignCounters(ctx)
}
