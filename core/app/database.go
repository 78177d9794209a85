package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Migrate brings the databases to this version's schema and creates the partitions of the next days.
// It gives the versions applied, none if all were.
func Migrate(ctx context.Context, cfg Config) ([]int64, error) {
	if err := cfg.checkDatabase(); err != nil {
		return nil, err
	}
	if cfg.Cells != "" {
		return migrateCells(ctx, cfg)
	}
	return migrate(ctx, cfg.storeOptions(), nil)
}

// migrate migrates one database; named then says which cell it is, nil nothing.
func migrate(ctx context.Context, options cell.Options, named func(context.Context, *cell.Cell) error) ([]int64, error) {
	store, err := cell.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	applied, err := store.Migrate(ctx)
	if err == nil && named != nil {
		err = named(ctx, store)
	}
	return applied, err
}

// Verify recounts the counts of caps and checks the other invariants between the tables of the
// databases. It gives a line for each violation, none if all is right. It changes nothing but when it
// ran last, for the operator, and may run while cores run.
func Verify(ctx context.Context, cfg Config) ([]string, error) {
	if err := cfg.checkDatabase(); err != nil {
		return nil, err
	}
	if cfg.Cells != "" {
		return verifyCells(ctx, cfg)
	}
	return verify(ctx, cfg.storeOptions())
}

func verify(ctx context.Context, options cell.Options) ([]string, error) {
	store, err := openMigrated(ctx, options)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return verifyStore(ctx, store)
}

func verifyStore(ctx context.Context, store *cell.Cell) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, caps.OperatorTime)
	defer cancel()
	drifts, err := store.Counts.Verify(ctx)
	if err != nil {
		return nil, err
	}
	collation, err := store.ChangedCollation(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := store.Gates.Verify(ctx)
	if err != nil {
		return nil, err
	}
	blocked, err := store.Dependencies.VerifyDependencies(ctx)
	if err != nil {
		return nil, err
	}
	waits, err := store.Jobs.VerifyWaits(ctx)
	if err != nil {
		return nil, err
	}
	lines := make([]string, 0, len(drifts)+len(keys)+len(blocked)+len(waits))
	for _, drift := range drifts {
		lines = append(lines, drift.String())
	}
	if collation != "" {
		lines = append(lines, "collation: "+collation)
	}
	lines = slices.Concat(lines, keys, blocked, waits)
	return lines, store.Processes.NoteVerified(ctx, len(lines))
}

// Recount resets the counts of caps that Verify found wrong, and gives how many jobs were counted.
// Jobs do not change, caps stay in force. No core may run on the database: otherwise it is an
// error, and nothing changes.
func Recount(ctx context.Context, cfg Config) (jobs int64, err error) {
	if err := cfg.checkDatabase(); err != nil {
		return 0, err
	}
	_, all, err := cfg.allCells()
	if err != nil {
		return 0, err
	}
	for _, options := range all {
		counted, err := recount(ctx, options)
		if jobs += counted; err != nil {
			return jobs, err
		}
	}
	return jobs, nil
}

func recount(ctx context.Context, options cell.Options) (int64, error) {
	options.MaxConns = 1 // otherwise its own connections would look like another core's
	store, err := openMigrated(ctx, options)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	return store.Counts.Recount(ctx)
}

// unfitError says that core cannot use a database as it is: waiting does not help.
type unfitError string

func (e unfitError) Error() string { return string(e) }

// openMigrated opens the store and refuses a schema or counts that this version cannot use.
func openMigrated(ctx context.Context, options cell.Options) (*cell.Cell, error) {
	opened, err := cell.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	pending, err := opened.SchemaPending(ctx)
	if store.IsOtherSchema(err) {
		err = unfitError("core: " + err.Error())
	}
	if err == nil && pending > 0 {
		err = unfitError(fmt.Sprintf("core: the database lacks %d migrations; run `core migrate` with the same DATABASE_URL first", pending))
	}
	foreign := false
	if err == nil {
		foreign, err = opened.Counts.ForeignCounters(ctx)
	}
	if err == nil && foreign {
		err = unfitError("core: the counts of caps were written by another server, as after the restore of a dump; " +
			"run `core migrate` with the same DATABASE_URL first, which resets them")
	}
	if err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}
