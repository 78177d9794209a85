package installation

import (
	"context"
	"fmt"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Report is what a process says of itself.
type Report struct {
	// ID is drawn when it is started.
	ID, Kind, Address, Version string
	// Age is since when it runs.
	Age time.Duration
}

const (
	// lostAfter is three reports and a bit, keptFor how long a lost process is shown.
	lostAfter = time.Minute
	keptFor   = time.Hour
	// maxListed bounds a list.
	maxListed = 500
)

// reportSQL also forgets those that were lost long ago. The start of a process does not change.
const reportSQL = `
WITH forgotten AS (DELETE FROM processes WHERE seen_at < statement_timestamp() - @kept::interval)
INSERT INTO processes (id, kind, address, version, started_at, seen_at)
VALUES (@id, @kind, @address, @version, statement_timestamp() - @age::interval, statement_timestamp())
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`

// ReportProcess notes a process.
func (r *Registry) ReportProcess(ctx context.Context, p Report) error {
	err := r.run(ctx, reportSQL, store.Args{"id": p.ID, "kind": p.Kind, "address": p.Address, "version": p.Version, "age": p.Age, "kept": keptFor})
	if err != nil {
		return fmt.Errorf("installation: report a process: %w", err)
	}
	return nil
}

const forgetSQL = `DELETE FROM processes WHERE id = @id`

// ForgetProcess forgets a process that ends.
func (r *Registry) ForgetProcess(ctx context.Context, id string) error {
	if err := r.run(ctx, forgetSQL, store.Args{"id": id}); err != nil {
		return fmt.Errorf("installation: forget a process: %w", err)
	}
	return nil
}
