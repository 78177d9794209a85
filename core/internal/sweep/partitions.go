package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

// partitionPeriod is short because a look that finds nothing missing only reads, and
// because a machine may wake up days later.
const partitionPeriod = time.Minute

// Partitions keeps the tables of the next days ready.
type Partitions struct {
	store   *cell.Cell
	metrics *metrics.Jobs
	log     *slog.Logger
}

// NewPartitions makes the duty.
func NewPartitions(store *cell.Cell, m *metrics.Jobs, log *slog.Logger) *Partitions {
	return &Partitions{store: store, metrics: m, log: log}
}

// Run keeps partitions ready until ctx ends.
func (p *Partitions) Run(ctx context.Context) error {
	every(ctx, partitionPeriod, "partitions", p.metrics, p.log, p.RunOnce)
	return nil
}

// RunOnce makes the partitions that are missing.
func (p *Partitions) RunOnce(ctx context.Context) error { return p.store.MakePartitions(ctx) }
