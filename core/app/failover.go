package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/failover"
)

// failoverTime bounds the comparison of two primaries: they may have tens of millions of live jobs.
const failoverTime = 6 * time.Hour

// FailoverWindow is the usual window of AfterFailover.
const FailoverWindow = time.Hour

// ErrNoOldPrimary says that AfterFailover could not compare anything with the old primary.
var ErrNoOldPrimary = errors.New("core: what the old primary had acknowledged and not sent can be found only in it: " +
	"start it where no core reaches it, and set FORGEQUEUE_OLD_DATABASE_URL")

// WriteVerified writes what Verify finds, a line each, and gives how many there are. With a window it does the same for AfterFailover.
func WriteVerified(ctx context.Context, cfg Config, window time.Duration, to io.Writer) (found int, err error) {
	drifts, err := Verify(ctx, cfg)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Fprintln(to, strings.Join(append([]string{fmt.Sprintf("drift: %d", len(drifts))}, drifts...), "\n"))
	if err != nil || window == 0 {
		return len(drifts), err
	}
	lost := 0
	var writing error
	err = AfterFailover(ctx, cfg, window, func(line string) {
		lost++
		if _, err := fmt.Fprintln(to, line); err != nil {
			writing = err
		}
	})
	if err == nil {
		_, writing = fmt.Fprintf(to, "lost by the failover: %d\n", lost)
	}
	return len(drifts) + lost, errors.Join(err, writing)
}

// AfterFailover writes a line for each thing that an asynchronous standby did not have when it was promoted. It is for use beside Verify, changes nothing, and may run while cores run. What ended or was changed in
// the old primary is compared from window before its last minute on.
func AfterFailover(ctx context.Context, cfg Config, window time.Duration, line func(string)) error {
	if err := cfg.checkDatabase(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, failoverTime)
	defer cancel()
	listed, err := cfg.listed()
	if err != nil {
		return err
	}
	_, options, err := cfg.allCells()
	if err != nil {
		return err
	}
	if cfg.OldDatabaseURL == "" {
		return ErrNoOldPrimary
	}
	of := cfg.storeOptions()
	of.URL, of.MaxConns, of.ReadOnly = cfg.OldDatabaseURL.Reveal(), 2, true
	old, err := cell.Open(ctx, of)
	if err != nil {
		return fmt.Errorf("core: the old primary: %w", err)
	}
	defer old.Close()
	promoted, err := successor(ctx, old, listed, options)
	if err != nil {
		return err
	}
	defer promoted.Close()
	return failover.Lost(ctx, old, promoted, window, line)
}

// successor opens the database that the old primary was, as it is now.
func successor(ctx context.Context, old *cell.Cell, listed []cells.Config, options []cell.Options) (*cell.Cell, error) {
	was, err := old.Processes.ThisCell(ctx)
	if err != nil {
		return nil, fmt.Errorf("core: the old primary: %w", err)
	}
	i := 0
	switch {
	case listed == nil && was != nil && !was.Home:
		return nil, unfitError(fmt.Sprintf("core: the old primary was the cell %q of an installation with several; set FORGEQUEUE_CELLS", was.Name))
	case listed != nil && was == nil:
		return nil, unfitError("core: the old primary is no cell of this installation; correct FORGEQUEUE_OLD_DATABASE_URL")
	case listed != nil:
		if i = slices.IndexFunc(listed, func(one cells.Config) bool { return one.Name == was.Name }); i < 0 {
			return nil, unfitError(fmt.Sprintf("core: FORGEQUEUE_CELLS has no cell %q, which the old primary was", was.Name))
		}
	}
	promoted, err := openMigrated(ctx, options[i])
	if err != nil {
		return nil, err
	}
	is, err := promoted.Processes.ThisCell(ctx)
	if err == nil && was != nil && (is == nil || is.Installation != was.Installation) {
		err = unfitError(fmt.Sprintf("core: the old primary was the cell %q of another installation; correct FORGEQUEUE_OLD_DATABASE_URL", was.Name))
	}
	if err != nil {
		promoted.Close()
		return nil, err
	}
	return promoted, nil
}
