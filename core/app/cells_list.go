package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/directory"
)

// cellTime bounds what one cell is asked by Cells.
const cellTime = 10 * time.Second

// CellState is one cell as Cells finds it.
type CellState struct {
	Name   string
	Weight int
	// AcceptsNew says whether new tenants may be placed there.
	AcceptsNew bool
	// Tenants are those that the directory has in the cell. Jobs are those that have not ended; counting
	// stops at 100,000. Bytes are those of its tables. They are 0 where Problem is not empty.
	Tenants, Jobs, Bytes int64
	// Problem says why the cell cannot be used; empty for a healthy one.
	Problem string
}

// Cells asks each cell how it is, the home cell first. It is an error where the home cell cannot be
// asked, or there is one database.
func Cells(ctx context.Context, cfg Config) ([]CellState, error) {
	if err := cfg.checkDatabase(); err != nil {
		return nil, err
	}
	listed, err := cfg.cells()
	if err != nil {
		return nil, err
	}
	if listed == nil {
		return nil, errors.New("core: FORGEQUEUE_CELLS is not set: the installation has one database")
	}
	options, err := cfg.cellOptions()
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, cellTime)
	defer cancel()
	home, err := openCell(bounded, options[0], listed[0], nil)
	if err != nil {
		return nil, err
	}
	defer home.Close()
	tenants, err := home.TenantsByCell(bounded)
	if err != nil {
		return nil, err
	}
	states := make([]CellState, len(listed))
	var group sync.WaitGroup
	for i, one := range listed {
		states[i] = CellState{Name: one.Name, Weight: one.Share(), AcceptsNew: one.Accepts(), Tenants: tenants[one.Name]}
		if one.Home() {
			states[i].Tenants = tenants[""]
		}
		group.Go(func() {
			size, err := sizeOf(bounded, options[i], one, home)
			if err != nil {
				states[i].Problem = err.Error()
				return
			}
			states[i].Jobs, states[i].Bytes = size.Jobs, size.Bytes
		})
	}
	group.Wait()
	return states, nil
}

func sizeOf(ctx context.Context, options cell.Options, config cells.Config, home *cell.Cell) (directory.CellSize, error) {
	if config.Home() {
		return home.CellSize(ctx)
	}
	options.MaxConns = 2
	store, err := openCell(ctx, options, config, home)
	if err != nil {
		return directory.CellSize{}, err
	}
	defer store.Close()
	return store.CellSize(ctx)
}

// WriteCells writes cells as a table.
func WriteCells(to io.Writer, listed []CellState) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tWEIGHT\tACCEPTS NEW\tTENANTS\tJOBS\tSIZE\tHEALTHY")
	for _, one := range listed {
		accepts, healthy := "no", "yes"
		if one.AcceptsNew {
			accepts = "yes"
		}
		jobs, size := fmt.Sprint(one.Jobs), fmt.Sprintf("%.1f MiB", float64(one.Bytes)/(1<<20))
		if one.Jobs >= directory.MaxCounted {
			jobs += " or more"
		}
		if one.Problem != "" {
			jobs, size, healthy = "-", "-", "no: "+strings.Join(strings.Fields(one.Problem), " ")
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\t%s\t%s\n", one.Name, one.Weight, accepts, one.Tenants, jobs, size, healthy)
	}
	return table.Flush()
}
