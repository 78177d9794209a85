package directory

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// retryPause is about the pause after a failure.
const retryPause = time.Second

// Feed copies the directory to a cell that is not the home. All cores of the cell do it; each change is copied by the first.
type Feed struct {
	// Store is the cell, Cell its name, Installation the id that its database has.
	Store        *store.Store
	Cell         string
	Installation string
	// Home asks a core of the home cell.
	Home *Home
	// Changed is called when something was copied: limits are to be read again.
	Changed func(context.Context)
	Log     *slog.Logger

	// One look at a time; what others ask for meanwhile, it has found as well.
	once sync.Mutex
}

// Run follows the home cell until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	failing := false
	for ctx.Err() == nil {
		err := f.follow(ctx, MaxWait)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end
		}
		if failed := err != nil; failed != failing {
			failing = failed
			if failed {
				f.Log.WarnContext(ctx, "the directory of the home cell cannot be read; known tenants and keys still work", "error", err)
			} else {
				f.Log.InfoContext(ctx, "the directory of the home cell can be read again")
			}
		}
		if err != nil {
			_ = wait.About(ctx, retryPause) // the loop sees the end
		}
	}
	return nil
}

// CatchUp copies what the home cell has now: for a tenant that the cell does not know yet.
func (f *Feed) CatchUp(ctx context.Context) error {
	f.once.Lock()
	defer f.once.Unlock()
	return f.follow(ctx, 0)
}

// follow copies changes until there are no more; the first answer may wait for one.
func (f *Feed) follow(ctx context.Context, patience time.Duration) error {
	for {
		since, err := Copied(ctx, f.Store)
		if err != nil {
			return err
		}
		changes, err := f.Home.Changes(ctx, hop.DirectoryRequest{Cell: f.Cell, Installation: f.Installation, Since: since, WaitMS: patience.Milliseconds()})
		if err != nil {
			return err
		}
		if changes.Version == since {
			return nil
		}
		if err := Apply(ctx, f.Store, since, changes); err != nil {
			return err
		}
		f.Changed(ctx)
		patience = 0
	}
}
