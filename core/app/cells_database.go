package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/core/internal/move"
)

// openAlone opens the one database of an installation. One that is a cell among several is refused:
// without the others, its tenants' jobs would be stored twice, or be missing.
func openAlone(ctx context.Context, options cell.Options) (*cell.Cell, error) {
	store, err := openMigrated(ctx, options)
	if err != nil {
		return nil, err
	}
	is, err := store.Processes.ThisCell(ctx)
	others := map[string]int64{}
	if err == nil && is != nil && is.Home {
		others, err = store.Processes.TenantsByCell(ctx)
		delete(others, "")
	}
	switch {
	case err != nil:
	case is != nil && !is.Home:
		err = unfitError(fmt.Sprintf("core: DATABASE_URL is the cell %q of an installation with several; name its home cell, and set FORGEQUEUE_CELLS", is.Name))
	case len(others) > 0:
		err = unfitError(fmt.Sprintf("core: tenants of this installation are in %d other cells; set FORGEQUEUE_CELLS as the other cores have it", len(others)))
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

// openCell opens one cell, and refuses a database that is not the one that the file names.
func openCell(ctx context.Context, options cell.Options, config cells.Config, home *cell.Cell) (*cell.Cell, error) {
	store, err := openMigrated(ctx, options)
	if err != nil {
		return nil, inCell(config.Name, err)
	}
	if err := checkCell(ctx, store, config, home); err != nil {
		store.Close()
		return nil, inCell(config.Name, err)
	}
	return store, nil
}

func checkCell(ctx context.Context, store *cell.Cell, config cells.Config, home *cell.Cell) error {
	is, err := store.Processes.ThisCell(ctx)
	if err != nil {
		return err
	}
	if is == nil {
		return unfitError("core: the database is not a cell yet; " + errNotRun.Error())
	}
	want := installation.ThisCell{Name: config.Name, Installation: is.Installation, Home: config.Home()}
	if home != nil {
		of, err := home.Processes.ThisCell(ctx)
		if err != nil {
			return err
		}
		if of == nil {
			return errNotRun
		}
		want.Installation = of.Installation
	}
	return differs(*is, want)
}

// differs says how a database is not the cell that it should be.
func differs(is, want installation.ThisCell) error {
	switch {
	case is.Installation != want.Installation:
		return unfitError(fmt.Sprintf("core: the database is the cell %q of another installation; correct the connection strings", is.Name))
	case is.Name != want.Name:
		return unfitError(fmt.Sprintf("core: the database is the cell %q; correct the connection strings, which may be swapped", is.Name))
	case is.Home != want.Home:
		return unfitError("core: the home cell is another database; DATABASE_URL must stay that of the home cell")
	}
	return nil
}

// migrateCells migrates the home cell, then the others, and makes each database the cell that the file
// says.
func migrateCells(ctx context.Context, cfg Config) ([]int64, error) {
	listed, options, err := cfg.allCells()
	if err != nil {
		return nil, err
	}
	id := uuid.New()
	var applied []int64
	var problems []error
	for i, one := range listed {
		done, err := migrate(ctx, options[i], func(ctx context.Context, store *cell.Cell) error {
			want := installation.ThisCell{Name: one.Name, Installation: id, Home: one.Home()}
			is, err := store.Processes.BecomeCell(ctx, want)
			if err != nil {
				return err
			}
			if is == nil {
				return unfitError("core: the database has tenants already: it is another installation's")
			}
			if one.Home() {
				id, want.Installation = is.Installation, is.Installation
			}
			return differs(*is, want)
		})
		applied = append(applied, done...)
		if problems = append(problems, inCell(one.Name, err)); err != nil && one.Home() {
			break
		}
	}
	return applied, errors.Join(problems...)
}

// verifyCells verifies each cell by itself, its lines begin with its name, and the cells against the directory. A cell that cannot
// be verified does not keep the others from it.
func verifyCells(ctx context.Context, cfg Config) ([]string, error) {
	listed, options, err := cfg.severalCells()
	if err != nil {
		return nil, err
	}
	var lines []string
	var problems []error
	var opened []move.Checked
	defer func() {
		for _, one := range opened {
			one.Close()
		}
	}()
	for i, one := range listed {
		store, err := openMigrated(ctx, options[i])
		if err != nil {
			problems = append(problems, inCell(one.Name, err))
			continue
		}
		opened = append(opened, move.Checked{Cell: store, Name: one.Name, Key: options[i].Cell})
		found, err := verifyStore(ctx, store)
		for _, line := range found {
			lines = append(lines, "cell "+one.Name+": "+line)
		}
		problems = append(problems, inCell(one.Name, err))
	}
	if len(opened) > 0 && opened[0].Key == "" {
		bounded, cancel := context.WithTimeout(ctx, caps.OperatorTime)
		defer cancel()
		misplaced, err := move.Check(bounded, opened)
		lines, problems = append(lines, misplaced...), append(problems, err)
	}
	return lines, errors.Join(problems...)
}
