package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

// partitionPeriod is short because a run that finds nothing missing only reads, and because a
// suspended machine may resume days later.
const partitionPeriod = time.Minute

// Partitions creates the partitions of the next days in advance.
type Partitions struct {
	store   *cell.Cell
	metrics *metrics.Jobs
	log     *slog.Logger
}

// NewPartitions makes the duty.
func NewPartitions(store *cell.Cell, m *metrics.Jobs, log *slog.Logger) *Partitions {
	return &Partitions{store: store, metrics: m, log: log}
}

// Run creates partitions until ctx ends.
func (p *Partitions) Run(ctx context.Context) error {
	every(ctx, partitionPeriod, "partitions", p.metrics, p.log, p.RunOnce)
	return nil
}

// RunOnce creates the missing partitions.
func (p *Partitions) RunOnce(ctx context.Context) error { return p.store.MakePartitions(ctx) }
