package sweep

import (
	"context"
	"time"
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
func (d Duties) Ledger() *Duty {
	var next time.Time
	return d.every(ledgerPeriod, "ledger", func(ctx context.Context) error {
		if time.Now().Before(next) {
			return nil
		}
		rest, err := d.closeDays(ctx)
		if rest {
			next = time.Now().Add(ledgerRest)
		}
		return err
	})
}

// closeDays closes every day that can be closed. rest says that the next one has not ended.
func (d Duties) closeDays(ctx context.Context) (rest bool, err error) {
	for {
		limited, cancel := context.WithTimeout(ctx, closeTime)
		day, err := d.store.Ledger.CloseDay(limited)
		cancel()
		if err != nil || day == nil {
			return false, err
		}
		if !day.Over {
			return true, nil
		}
		if by := day.Holder; by != nil {
			if now, err := d.store.Now(ctx); err == nil && now.Sub(day.To) > heldFor {
				d.log.WarnContext(ctx, "a day of the ledger cannot be closed: a transaction that began on it is still open", "day", day.Day.Format(time.DateOnly),
					"pid", by.PID, "application", by.Application, "role", by.Role, "since", by.Since)
			}
			return false, nil
		}
		d.log.InfoContext(ctx, "a day of the ledger is closed", "day", day.Day.Format(time.DateOnly))
	}
}
