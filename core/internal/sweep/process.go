package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Process reports this core to the home cell.
type Process struct {
	store   *cell.Cell
	report  installation.Report
	begun   time.Time
	metrics *metrics.Jobs
	log     *slog.Logger
}

// NewProcess makes the duty. Of the report, the age and kind are set here.
func NewProcess(store *cell.Cell, report installation.Report, m *metrics.Jobs, log *slog.Logger) *Process {
	report.Kind = api.ProcessCore
	return &Process{store: store, report: report, begun: time.Now(), metrics: m, log: log}
}

// Run reports until ctx ends.
func (p *Process) Run(ctx context.Context) error {
	every(ctx, api.ProcessReportEvery, "processes", p.metrics, p.log, p.RunOnce)
	return nil
}

// RunOnce reports once.
func (p *Process) RunOnce(ctx context.Context) error {
	report := p.report
	report.Age = time.Since(p.begun)
	return p.store.ReportProcess(ctx, report)
}

// Forget takes the report back: the core is stopped.
func (p *Process) Forget(ctx context.Context) error { return p.store.ForgetProcess(ctx, p.report.ID) }
