package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/installation"
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
	// stops at 100,000. Bytes are those of its tables. Started are the attempts that have begun in the last ten
	// minutes. All but Tenants are 0 where Problem is not empty.
	Tenants, Jobs, Bytes, Started int64
	// Problem says why the cell cannot be used; empty for a healthy one.
	Problem string
}

// Cells asks each cell how it is, the home cell first. It is an error where the home cell cannot be
// asked, or there is one database.
func Cells(ctx context.Context, cfg Config) ([]CellState, error) {
	if err := cfg.checkDatabase(); err != nil {
		return nil, err
	}
	listed, options, err := cfg.severalCells()
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
	tenants, err := home.Processes.TenantsByCell(bounded)
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
			states[i].Jobs, states[i].Bytes, states[i].Started = size.Jobs, size.Bytes, size.Started
		})
	}
	group.Wait()
	return states, nil
}

func sizeOf(ctx context.Context, options cell.Options, config cells.Config, home *cell.Cell) (installation.CellSize, error) {
	if config.Home() {
		return home.Processes.CellSize(ctx)
	}
	options.MaxConns = 2
	store, err := openCell(ctx, options, config, home)
	if err != nil {
		return installation.CellSize{}, err
	}
	defer store.Close()
	return store.Processes.CellSize(ctx)
}

// WriteCells writes cells as a table. A cell's share of the sum of all cells is behind each number.
func WriteCells(to io.Writer, listed []CellState) error {
	var weights, tenants, jobs, bytes, started int64
	for _, one := range listed {
		weights, tenants, jobs, bytes, started = weights+int64(one.Weight), tenants+one.Tenants, jobs+one.Jobs, bytes+one.Bytes, started+one.Started
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "NAME\tWEIGHT\tACCEPTS NEW\tTENANTS\tJOBS\tSTARTED IN %d MIN\tSIZE\tHEALTHY\n", installation.CountedMinutes)
	for _, one := range listed {
		accepts, healthy := "no", "yes"
		if one.AcceptsNew {
			accepts = "yes"
		}
		live := fmt.Sprint(one.Jobs)
		if one.Jobs >= installation.MaxCounted {
			live += " or more"
		}
		live += share(one.Jobs, jobs)
		begun := fmt.Sprint(one.Started) + share(one.Started, started)
		size := fmt.Sprintf("%.1f MiB", float64(one.Bytes)/(1<<20)) + share(one.Bytes, bytes)
		if one.Problem != "" {
			live, begun, size, healthy = "-", "-", "-", "no: "+strings.Join(strings.Fields(one.Problem), " ")
		}
		_, _ = fmt.Fprintf(table, "%s\t%d%s\t%s\t%d%s\t%s\t%s\t%s\t%s\n",
			one.Name, one.Weight, share(int64(one.Weight), weights), accepts, one.Tenants, share(one.Tenants, tenants), live, begun, size, healthy)
	}
	return table.Flush()
}

// share is a part in percent of the whole, empty where the whole is 0.
func share(part, whole int64) string {
	if whole == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.0f %%)", 100*float64(part)/float64(whole))
}
