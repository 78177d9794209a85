package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

const (
	// ledgerPeriod is the time between two tries to close a day that can be closed, ledgerRest after one that has not ended.
	ledgerPeriod = time.Minute
	ledgerRest   = 10 * time.Minute
	// closeTime bounds the count of a day.
	closeTime = 10 * time.Minute
	// heldFor is how long a day may stay open after its end before it is a warning.
	heldFor = time.Hour
)

// Ledger closes days.
type Ledger struct {
	store   *cell.Cell
	metrics *metrics.Jobs
	log     *slog.Logger
	// next is when it asks again.
	next time.Time
}

// NewLedger makes the duty.
func NewLedger(store *cell.Cell, m *metrics.Jobs, log *slog.Logger) *Ledger {
	return &Ledger{store: store, metrics: m, log: log}
}

// Run closes days until ctx ends.
func (l *Ledger) Run(ctx context.Context) error {
	every(ctx, ledgerPeriod, "ledger", l.metrics, l.log, l.RunOnce)
	return nil
}

// RunOnce closes every day that can be closed.
func (l *Ledger) RunOnce(ctx context.Context) error {
	if time.Now().Before(l.next) {
		return nil
	}
	for {
		limited, cancel := context.WithTimeout(ctx, closeTime)
		day, err := l.store.CloseDay(limited)
		cancel()
		if err != nil || day == nil {
			return err
		}
		if !day.Over {
			l.next = time.Now().Add(ledgerRest)
			return nil
		}
		if by := day.Holder; by != nil {
			if now, err := l.store.Now(ctx); err == nil && now.Sub(day.To) > heldFor {
				l.log.WarnContext(ctx, "a day of the ledger cannot be closed: a transaction that began on it is still open", "day", day.Day.Format(time.DateOnly),
					"pid", by.PID, "application", by.Application, "role", by.Role, "since", by.Since)
			}
			return nil
		}
		l.log.InfoContext(ctx, "a day of the ledger is closed", "day", day.Day.Format(time.DateOnly))
	}
}
