package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/move"
)

const (
	// moveTime bounds a move: a tenant may have hundreds of gigabytes of history.
	moveTime = 48 * time.Hour
	// moveConns is how many connections a move has to each cell.
	moveConns = 6
)

// TenantMove is a request to move a tenant.
type TenantMove struct {
	Tenant string
	// Cell is where to. It may be empty for an abort.
	Cell  string
	Abort bool
}

// MoveTenant moves a tenant to another cell while cores run, or goes on where an earlier call ended. Core's settings name
// the cells; all of the two and the home cell must answer.
func MoveTenant(ctx context.Context, cfg Config, request TenantMove) error {
	if err := cfg.checkDatabase(); err != nil {
		return err
	}
	log, err := cfg.logger()
	if err != nil {
		return err
	}
	owner, err := uuid.Parse(request.Tenant)
	if err != nil {
		return fmt.Errorf("core: %q is no tenant's id", request.Tenant)
	}
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	opened, err := openForMove(ctx, cfg)
	if err != nil {
		return err
	}
	defer opened.close()
	in, under, err := move.Place(ctx, opened.stores[0], owner)
	if err != nil {
		return fmt.Errorf("core: tenant %s: %w", owner, err)
	}
	from, to, err := opened.ends(request, in, under)
	if err != nil {
		return err
	}
	options := move.Options{Home: opened.stores[0], Tenant: owner, Log: log, Settle: move.DefaultSettle, Drain: move.DefaultDrain, From: opened.stored(from), To: opened.stored(to)}
	if options.Source, err = opened.open(ctx, from); err == nil {
		options.Target, err = opened.open(ctx, to)
	}
	if err != nil {
		return err
	}
	mover := move.New(options)
	if request.Abort {
		err = mover.Abort(ctx)
	} else {
		err = mover.Move(ctx)
	}
	if err != nil {
		return fmt.Errorf("core: tenant %s: %w", owner, err)
	}
	log.InfoContext(ctx, "a tenant's move has ended", slog.String("tenant", owner.String()), slog.Bool("aborted", request.Abort))
	return nil
}

// movedBetween are the cells of an installation, opened as they are needed.
type movedBetween struct {
	cfg    Config
	listed []cells.Config
	// options are each cell's store's; stores are nil until they are open.
	options []cell.Options
	stores  []*cell.Cell
}

func openForMove(ctx context.Context, cfg Config) (*movedBetween, error) {
	listed, options, err := cfg.severalCells()
	if err != nil {
		return nil, err
	}
	b := &movedBetween{cfg: cfg, listed: listed, options: options, stores: make([]*cell.Cell, len(listed))}
	_, err = b.open(ctx, 0)
	return b, err
}

func (b *movedBetween) open(ctx context.Context, i int) (*cell.Cell, error) {
	if b.stores[i] != nil {
		return b.stores[i], nil
	}
	options := b.options[i]
	options.MaxConns = moveConns
	made, err := openCell(ctx, options, b.listed[i], b.stores[0])
	if err == nil {
		b.stores[i] = made
	}
	return made, err
}

func (b *movedBetween) close() {
	for _, one := range b.stores {
		if one != nil {
			one.Close()
		}
	}
}

// stored is a cell's name as the directory has it: the home cell has none.
func (b *movedBetween) stored(i int) string {
	if i == 0 {
		return ""
	}
	return b.listed[i].Name
}

// index finds a cell by the name that the directory has.
func (b *movedBetween) index(name string) (int, error) {
	if name == "" {
		return 0, nil
	}
	i := slices.IndexFunc(b.listed, func(one cells.Config) bool { return one.Name == name })
	if i < 0 {
		names := make([]string, len(b.listed))
		for i := range b.listed {
			names[i] = b.listed[i].Name
		}
		return 0, fmt.Errorf("core: FORGEQUEUE_CELLS has no cell %q; it has %q", name, names)
	}
	return i, nil
}

// ends gives the two cells of the move that is asked for, or of the one under way.
func (b *movedBetween) ends(request TenantMove, in string, under move.Row) (from, to int, err error) {
	asked := -1
	if request.Cell != "" {
		if asked, err = b.index(request.Cell); err != nil {
			return 0, 0, err
		}
	}
	source, target := in, b.stored(max(asked, 0))
	if under.Phase != "" {
		source, target = under.Source, under.Target
	}
	if from, err = b.index(source); err != nil {
		return 0, 0, err
	}
	if to, err = b.index(target); err != nil {
		return 0, 0, err
	}
	switch {
	case under.Phase == "" && request.Abort:
		return 0, 0, fmt.Errorf("core: %w", move.ErrNoMove)
	case asked >= 0 && asked != to:
		return 0, 0, fmt.Errorf("core: to %s: %w", b.listed[to].Name, move.ErrOtherMove)
	case from == to:
		return 0, 0, fmt.Errorf("core: %w", move.ErrSameCell)
	}
	return from, to, nil
}
