package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
	"github.com/forgequeue/forgequeue/shared/server/seats"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// openPause is about the pause before another try to open a cell.
	openPause = 2 * time.Second
	// sayEvery is how often the log says that a cell still waits for its database.
	sayEvery = time.Minute
)

// process is what the cells of one process share, which is no data.
type process struct {
	cfg             Config
	log             *slog.Logger
	tracing         *telemetry.Tracing
	redis           *redisclient.Client
	public, private net.Listener
	registry        *prometheus.Registry
	processors      *seats.Seats
	draining        atomic.Bool
	// cells are all of the installation, nil where it has one database.
	cells []cells.Config
}

// instance is one cell that this process serves: a pool, an engine, duties and routes of its own. It knows nothing of the
// process's other cells. The only database of an installation is one without a name.
type instance struct {
	*process
	config  cells.Config
	options cell.Options
	// handler answers: until the cell is open, that it waits.
	handler atomic.Pointer[http.Handler]
	// reason is why it waits.
	reason atomic.Pointer[string]
	// opened is closed once store and engine are set.
	opened chan struct{}
	store  *cell.Cell
	engine *cellEngine
}

// instances are the cells that this process serves.
func (p *process) instances(ctx context.Context) ([]*instance, error) {
	served, options, err := p.cfg.served()
	if err != nil {
		return nil, err
	}
	all := make([]*instance, len(served))
	for i := range served {
		one := &instance{process: p, config: served[i], options: options[i], opened: make(chan struct{})}
		one.options.Logger = one.logger()
		one.options.Tracing, one.options.Attempts = p.tracing.Provider(), p.log.Enabled(ctx, slog.LevelInfo)
		one.options.Took = metrics.NewDatabaseSeconds(one.metrics(), httpapi.Operations())
		one.waits("it has not been opened yet")
		all[i] = one
	}
	return all, nil
}

// prefix is what the paths of a cell's routes begin with.
func (i *instance) prefix() string {
	if i.config.Name == "" {
		return ""
	}
	return cells.Prefix(i.config.Name)
}

func (i *instance) logger() *slog.Logger {
	if i.config.Name == "" {
		return i.log
	}
	return i.log.With("cell", i.config.Name)
}

// metrics is where the cell registers its metrics.
func (i *instance) metrics() prometheus.Registerer {
	if i.config.Name == "" {
		return i.registry
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"cell": i.config.Name}, i.registry)
}

// waits answers that the cell waits for its database.
func (i *instance) waits(reason string) {
	if i.reason.Swap(&reason) == nil {
		waiting := http.StripPrefix(i.prefix(), httpapi.Waiting(func() string { return *i.reason.Load() }))
		i.handler.Store(&waiting)
	}
}

func (i *instance) isOpen() bool {
	select {
	case <-i.opened:
		return true
	default:
		return false
	}
}

// open connects to the database and makes the engine.
func (i *instance) open(ctx context.Context) error {
	store, err := i.openStore(ctx)
	if err != nil {
		return err
	}
	e, err := newEngine(ctx, i, store, hints.New(store.Identity, i.redis, i.logger()))
	if err != nil {
		store.Close()
		return unfitError(err.Error()) // its settings, which do not change
	}
	i.store, i.engine = store, e
	handler := e.server.Handler(i.metrics())
	i.handler.Store(&handler)
	close(i.opened)
	return nil
}

func (i *instance) openStore(ctx context.Context) (*cell.Cell, error) {
	if i.config.Name == "" {
		return openAlone(ctx, i.options)
	}
	return openCell(ctx, i.options, i.config, nil)
}

// openFirst tries to open the cell. It is an error only where waiting does not help.
func (i *instance) openFirst(ctx context.Context) error {
	err := i.open(ctx)
	reason := store.Away(err)
	if reason == "" {
		return err
	}
	i.waits(reason)
	i.logger().WarnContext(ctx, "core waits for its database", "reason", reason, "error", err)
	return nil
}

// openLate tries until the cell is open or ctx ends. It is an error where waiting does not help.
func (i *instance) openLate(ctx context.Context) error {
	said := time.Now()
	for !i.isOpen() {
		if wait.About(ctx, openPause) != nil {
			return nil //nolint:nilerr // the end
		}
		err := i.open(ctx)
		reason := store.Away(err)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end
		case err == nil:
			i.logger().InfoContext(ctx, "core has reached its database")
			return nil
		case reason == "":
			return err
		}
		i.waits(reason)
		if time.Since(said) >= sayEvery {
			said = time.Now()
			i.logger().WarnContext(ctx, "core still waits for its database", "reason", reason, "error", err)
		}
	}
	return nil
}

// run opens the cell if it is not, and runs its duties until ctx ends.
func (i *instance) run(ctx context.Context) error {
	if err := i.openLate(ctx); err != nil || !i.isOpen() {
		return err
	}
	var group sync.WaitGroup
	for _, duty := range i.engine.duties {
		group.Go(func() {
			if err := duty(ctx); err != nil {
				i.logger().ErrorContext(ctx, "a part of core ended", "error", err)
			}
		})
	}
	group.Wait()
	return nil
}

func (i *instance) push(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-i.opened:
		i.engine.push(ctx)
	}
}

func (i *instance) close() {
	if i.isOpen() {
		i.store.Close()
	}
}

// ready is what /readyz says of the cell.
func (i *instance) ready(ctx context.Context) api.Readiness {
	if !i.isOpen() {
		return api.Readiness{Status: "starting", Checks: map[string]string{"database": "down"}, Reason: *i.reason.Load()}
	}
	return i.engine.server.Readiness(ctx)
}

// each does something for all cells at once.
func each(all []*instance, do func(*instance) error) error {
	failures := make([]error, len(all))
	var group sync.WaitGroup
	for i, one := range all {
		group.Go(func() { failures[i] = inCell(one.config.Name, do(one)) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// opened are the cells that are open.
func opened(all []*instance) []*instance {
	var open []*instance
	for _, one := range all {
		if one.isOpen() {
			open = append(open, one)
		}
	}
	return open
}

// oneInstallation refuses cells that are not of one installation. Where its home is served by another process, that refuses them.
func oneInstallation(ctx context.Context, open []*instance) error {
	var first *installation.ThisCell
	for _, one := range open {
		is, err := one.store.Processes.ThisCell(ctx)
		switch {
		case err != nil || is == nil:
			return inCell(one.config.Name, err) // nil: the only database
		case first == nil:
			first = is
		default:
			if err := differs(*is, installation.ThisCell{Name: is.Name, Home: is.Home, Installation: first.Installation}); err != nil {
				return inCell(one.config.Name, err)
			}
		}
	}
	return nil
}
