package app

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/directory"
)

// listed reads the file of cells; nil without one.
func (cfg Config) listed() ([]cells.Config, error) {
	if cfg.Cells == "" {
		return nil, nil
	}
	listed, err := cells.Load(cfg.Cells)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, one := range listed {
		if !one.Home() && !cfg.AllowPlaintext {
			problems = append(problems, plaintext("cell "+one.Name, one.DSN))
		}
	}
	return listed, errors.Join(problems...)
}

// allCells are the cells of the file and the options of their stores; the only database is a cell without a name.
func (cfg Config) allCells() ([]cells.Config, []cell.Options, error) {
	listed, err := cfg.listed()
	if err != nil {
		return nil, nil, err
	}
	if listed == nil {
		listed = []cells.Config{{}}
	}
	options := make([]cell.Options, len(listed))
	for i, one := range listed {
		if options[i] = cfg.storeOptions(); !one.Home() {
			options[i].URL, options[i].Cell = one.DSN.Reveal(), one.Name
		}
	}
	return listed, options, nil
}

// severalCells is allCells, and an error where there is no file.
func (cfg Config) severalCells() ([]cells.Config, []cell.Options, error) {
	if cfg.Cells == "" {
		return nil, nil, errors.New("core: FORGEQUEUE_CELLS is not set: the installation has one database")
	}
	return cfg.allCells()
}

// served are the cells that this process serves, and the options of their stores.
func (cfg Config) served() ([]cells.Config, []cell.Options, error) {
	all, options, err := cfg.allCells()
	if err != nil || cfg.ServeCells == nil {
		return all, options, err
	}
	var some []cells.Config
	var of []cell.Options
	for _, name := range cfg.ServeCells {
		i := slices.IndexFunc(all, func(one cells.Config) bool { return one.Name == name })
		if i < 0 {
			return nil, nil, fmt.Errorf("FORGEQUEUE_SERVE_CELLS: FORGEQUEUE_CELLS has no cell %q", name)
		}
		some, of = append(some, all[i]), append(of, options[i])
	}
	return some, of, nil
}

// checkCells checks the settings of cells together.
func (cfg Config) checkCells() error {
	listed, err := cfg.listed()
	switch {
	case err != nil:
		return fmt.Errorf("FORGEQUEUE_CELLS: %w", err)
	case listed == nil && (cfg.ServeCells != nil || cfg.HomeURL != ""):
		return errors.New("FORGEQUEUE_SERVE_CELLS and FORGEQUEUE_HOME_URL: are of use only with FORGEQUEUE_CELLS")
	case listed == nil:
		return nil
	}
	served, _, err := cfg.served()
	if err != nil {
		return err
	}
	if cfg.HomeURL != "" {
		if _, err := directory.NewHome(cfg.HomeURL, nil); err != nil {
			return fmt.Errorf("FORGEQUEUE_HOME_URL: %w", err)
		}
	} else if !slices.ContainsFunc(served, cells.Config.Home) {
		return errors.New("FORGEQUEUE_HOME_URL: is required where this core does not serve the home cell, such as http://core:8081" + cells.Prefix(listed[0].Name))
	}
	return nil
}

// homeURL is where the cores of the home cell are: if no setting says so, this process is one.
func (p *process) homeURL() string {
	if p.cfg.HomeURL != "" {
		return p.cfg.HomeURL
	}
	host, port, err := net.SplitHostPort(p.public.Addr().String())
	if ip := net.ParseIP(strings.Trim(host, "[]")); err == nil && (ip == nil || ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + cells.Prefix(p.cells[0].Name)
}

var errNotRun = errors.New("run `core migrate` with the same FORGEQUEUE_CELLS first")

func inCell(name string, err error) error {
	if err == nil || name == "" {
		return err
	}
	return fmt.Errorf("cell %s: %w", name, err)
}
