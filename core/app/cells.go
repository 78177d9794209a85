package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// openPause is about the pause before another try to open a cell.
const openPause = 2 * time.Second

// cellsOptions are what serveCells needs; it closes no part of them.
type cellsOptions struct {
	cfg             Config
	log             *slog.Logger
	tracing         *telemetry.Tracing
	store           cell.Options
	redis           *redisclient.Client
	public, private net.Listener
}

// slot is the place of one cell: its engine starts when the database can be reached.
type slot struct {
	cellsOptions
	config   cells.Config
	index    int
	door     *httpapi.CellDoor
	registry prometheus.Registerer
	draining func() bool
	// started is closed once store and engine are set.
	started chan struct{}
	store   *cell.Cell
	engine  *cellEngine
	target  cells.Target
}

// serveCells serves several cells. Core waits for the home cell when it starts, as for the one database
// otherwise; the others may follow later, and one that is not what the file says is refused.
func serveCells(ctx context.Context, o cellsOptions) error {
	listed, err := o.cfg.cells()
	if err != nil {
		return err
	}
	registry := telemetry.NewRegistry()
	var draining atomic.Bool
	slots := make([]*slot, len(listed))
	names := make([]string, len(listed))
	divider := &httpapi.Divider{}
	for i, one := range listed {
		names[i] = one.Name
		slots[i] = &slot{
			cellsOptions: o, config: one, index: i, draining: draining.Load, started: make(chan struct{}),
			registry: prometheus.WrapRegistererWith(prometheus.Labels{"cell": one.Name}, registry),
			door:     &httpapi.CellDoor{Name: one.Name, Weight: one.Share(), Accepts: one.Accepts(), Gate: cells.NewGate()},
		}
		divider.Cells = append(divider.Cells, slots[i].door)
		metrics.RegisterCell(slots[i].registry, slots[i].door.Gate.Open)
	}
	defer func() {
		for _, one := range slots {
			one.close()
		}
	}()
	home := slots[0]
	err = whenThere(ctx, o.log, o.public, func(ctx context.Context) error { return home.open(ctx, nil) })
	if err != nil || !home.up() { // stopped while it waited
		return err
	}
	places := cells.NewPlaces(home.store, names, func(owner tenant.ID, cell int) {
		if slots[cell].up() {
			slots[cell].engine.engine.Claims.TenantLeft(owner)
		}
	})
	divider.Places, divider.Copier = places, cells.NewCopier(home.store, places, o.log)
	if err := openOthers(ctx, slots); err != nil {
		return err
	}
	d := door{
		cfg: o.cfg, log: o.log, registry: registry, public: o.public, private: o.private, draining: &draining, handler: divider.Handler(registry),
		duties: []func(context.Context) error{divider.Copier.Home},
		push:   func(ctx context.Context) { each(slots, func(s *slot) { s.push(ctx) }) },
		drain: func() {
			for _, one := range slots {
				if one.up() {
					one.engine.engine.Drain()
				}
			}
		},
		last: func(ctx context.Context) {
			each(slots, func(s *slot) {
				if s.up() && s.door.Gate.Open() {
					s.engine.last(ctx)
				}
			})
		},
	}
	for _, one := range slots {
		d.duties = append(d.duties, func(ctx context.Context) error { return one.run(ctx, home.store, divider.Copier) })
	}
	return d.serve(ctx)
}

// openOthers tries each cell but the home once. One that cannot be reached now is opened later.
func openOthers(ctx context.Context, slots []*slot) error {
	failures := make([]error, len(slots))
	each(slots[1:], func(s *slot) {
		err := s.open(ctx, slots[0].store)
		if _, unfit := errors.AsType[unfitError](err); unfit {
			failures[s.index] = err
		} else if err != nil {
			s.log.WarnContext(ctx, "a cell cannot be opened yet; its tenants are refused", "cell", s.config.Name, "error", err)
		}
	})
	return errors.Join(failures...)
}

func each(slots []*slot, do func(*slot)) {
	var group sync.WaitGroup
	for _, one := range slots {
		group.Go(func() { do(one) })
	}
	group.Wait()
}

// open connects to the database, makes the engine, and lets calls in. home is nil for the home cell
// itself.
func (s *slot) open(ctx context.Context, home *cell.Cell) error {
	store, err := openCell(ctx, s.options(), s.config, home)
	if err != nil {
		return err
	}
	notifier := hints.New(store.Identity, s.redis, s.log)
	o := engineOptions{
		cfg: s.cfg, log: s.log.With("cell", s.config.Name), tracing: s.tracing, store: store, notifier: notifier, registry: s.registry, draining: s.draining,
	}
	if s.config.Home() {
		o.public = s.public
	}
	e, err := newEngine(ctx, o)
	if err != nil {
		store.Close()
		return unfitError(err.Error()) // its settings, which do not change
	}
	if s.config.Home() {
		e.server.Cell = s.config.Name
	}
	s.store, s.engine = store, e
	s.target = cells.Target{Name: s.config.Name, Index: s.index, Store: store, Changed: func(ctx context.Context) {
		if err := e.engine.Publisher.Refresh(ctx); err != nil {
			s.log.WarnContext(ctx, "changed limits are not in force yet", "cell", s.config.Name, "error", err)
		}
		notifier.Settings()
	}}
	s.door.Open(e.server, s.target)
	close(s.started)
	return nil
}

// options are the store's, for this cell.
func (s *slot) options() cell.Options {
	options := s.cellsOptions.store
	if !s.config.Home() {
		options.URL, options.Cell = s.config.DSN.Reveal(), s.config.Name
	}
	options.Logger = s.log.With("cell", s.config.Name)
	return options
}

func (s *slot) up() bool {
	select {
	case <-s.started:
		return true
	default:
		return false
	}
}

// run opens the cell if it is not, and runs its duties until ctx ends.
func (s *slot) run(ctx context.Context, home *cell.Cell, copier *cells.Copier) error {
	said := ""
	for !s.up() {
		if err := wait.About(ctx, openPause); err != nil {
			return nil //nolint:nilerr // the end
		}
		if err := s.open(ctx, home); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			s.log.WarnContext(ctx, "a cell cannot be opened yet; its tenants are refused", "cell", s.config.Name, "error", err)
		}
	}
	var group sync.WaitGroup
	for _, duty := range s.engine.duties {
		group.Go(func() {
			if err := duty(ctx); err != nil {
				s.log.ErrorContext(ctx, "a part of core ended", "cell", s.config.Name, "error", err)
			}
		})
	}
	group.Go(func() { s.door.Gate.Watch(ctx, s.store.NewPulse(), s.config.Name, s.log) })
	if s.index > 0 {
		group.Go(func() { _ = copier.Run(ctx, s.target) })
	}
	group.Wait()
	return nil
}

func (s *slot) push(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.started:
		s.engine.push(ctx)
	}
}

func (s *slot) close() {
	if s.up() {
		s.store.Close()
	}
}

// cells reads the file; nil without one.
func (cfg Config) cells() ([]cells.Config, error) {
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

// cellOptions are the store's, for each database.
func (cfg Config) cellOptions() ([]cell.Options, error) {
	listed, err := cfg.cells()
	if err != nil || listed == nil {
		return []cell.Options{cfg.storeOptions()}, err
	}
	all := make([]cell.Options, len(listed))
	for i, one := range listed {
		if all[i] = cfg.storeOptions(); !one.Home() {
			all[i].URL, all[i].Cell = one.DSN.Reveal(), one.Name
		}
	}
	return all, nil
}

var errNotRun = errors.New("run `core migrate` with the same FORGEQUEUE_CELLS first")

func inCell(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cell %s: %w", name, err)
}
