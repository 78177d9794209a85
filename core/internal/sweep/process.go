package sweep

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Process reports this core to the home cell. Of the report, the age and kind are set here.
func (d Duties) Process(report installation.Report) *Duty {
	begun := time.Now()
	report.Kind = api.ProcessCore
	return d.every(hop.ProcessReportEvery, "processes", func(ctx context.Context) error {
		now := report
		now.Age = time.Since(begun)
		return d.store.Processes.ReportProcess(ctx, now)
	})
}
