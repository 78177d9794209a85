package move

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// The phases of a move, as package documentation has them.
const (
	Copying  = "copying"
	Draining = "draining"
	Left     = "left"
	Switched = "switched"
	Removing = "removing"
	Aborting = "aborting"
)

// DefaultSettle is longer than a core believes in a tenant's cell without asking (cells.Places), and a call takes after that:
// afterwards nothing that was meant for the source is under way.
const DefaultSettle = 45 * time.Second

// DefaultDrain bounds the wait for the tenant's leases: a worker may extend one for ever.
const DefaultDrain = time.Minute

// removeBatch is how many rows of the source one transaction removes.
const removeBatch = 2000

// Row is a move as the home cell has it. Cells are names, "" is the home cell.
type Row struct {
	Source, Target, Phase string
}

// Mover moves one tenant. Its cells are open.
type Mover struct {
	home, source, target *cell.Cell
	tenant               tenant.ID
	from, to             string
	log                  *slog.Logger
	settle, longestDrain time.Duration
	// columns are those of each table, once runFrom has read them.
	columns map[string][]string
}

// Options are the cells and the tenant of a Mover.
type Options struct {
	Home, Source, Target *cell.Cell
	// From and To are the names of the last two, "" for the home cell.
	From, To string
	Tenant   tenant.ID
	Log      *slog.Logger
	// Settle is how long the source keeps the rows after the switch, for reads by cores that do not know of it yet.
	Settle time.Duration
	// Drain is how long leases may last before they are released, at most.
	Drain time.Duration
}

// New makes a Mover.
func New(o Options) *Mover {
	return &Mover{home: o.Home, source: o.Source, target: o.Target, from: o.From, to: o.To, tenant: o.Tenant, log: o.Log, settle: o.Settle, longestDrain: o.Drain}
}

const (
	placeSQL = `
SELECT COALESCE(t.cell, '') AS cell, t.deleting_at IS NOT NULL AS deleting,
       COALESCE(m.source, '') AS source, COALESCE(m.target, '') AS target, COALESCE(m.phase, '') AS phase
FROM tenants AS t LEFT JOIN tenant_moves AS m ON m.tenant_id = t.id
WHERE t.id = @tenant_id`
	beginSQL = `
INSERT INTO tenant_moves (tenant_id, source, target, phase, started_at)
SELECT id, COALESCE(cell, ''), @target, 'copying', statement_timestamp() FROM tenants
WHERE id = @tenant_id AND deleting_at IS NULL AND COALESCE(cell, '') <> @target
ON CONFLICT (tenant_id) DO NOTHING`
	// Another command may have gone on, or aborted the move, if the home cell has lost this one's lock.
	phaseSQL = `
UPDATE tenant_moves SET phase = @phase, switched_at = CASE WHEN @phase = 'switched' THEN statement_timestamp() ELSE switched_at END
WHERE tenant_id = @tenant_id AND phase = @before
RETURNING phase`
	switchSQL = `
UPDATE tenants SET cell = @cell, updated_at = statement_timestamp(), version = @version WHERE id = @tenant_id`
	settledSQL = `
SELECT GREATEST(switched_at + @settle::interval - statement_timestamp(), interval '0') FROM tenant_moves WHERE tenant_id = @tenant_id`
	endSQL = `
DELETE FROM tenant_moves WHERE tenant_id = @tenant_id`
)

// Place gives the cell of a tenant, "" for the home cell, and the move that is under way; its phase is "" for none.
func Place(ctx context.Context, home *cell.Cell, owner tenant.ID) (in string, under Row, err error) {
	type place struct {
		Cell                  string
		Deleting              bool
		Source, Target, Phase string
	}
	rows, err := store.Query(ctx, home.Store, pgx.RowToStructByName[place], placeSQL, store.Args{"tenant_id": owner})
	if err != nil {
		return "", Row{}, store.NotApplied(err)
	}
	if len(rows) == 0 {
		return "", Row{}, ErrUnknownTenant
	}
	if rows[0].Deleting && rows[0].Phase == "" {
		return "", Row{}, ErrDeleting
	}
	return rows[0].Cell, Row{rows[0].Source, rows[0].Target, rows[0].Phase}, nil
}

// withLock runs work while no other mover moves the tenant. The lock is of a session: a transaction that is open for as long as
// the move would keep the home cell's days from being closed.
func (m *Mover) withLock(ctx context.Context, work func(context.Context) error) error {
	mine, err := m.home.WithSessionLock(ctx, store.LockMove, m.tenant, func(*store.Conn) error { return work(ctx) })
	if err == nil && !mine {
		err = ErrBusy
	}
	return err
}

// Move moves the tenant, or goes on where an earlier run ended.
func (m *Mover) Move(ctx context.Context) error {
	if m.source.Distributed() || m.target.Distributed() {
		return ErrCitus
	}
	return m.withLock(ctx, func(ctx context.Context) error {
		if err := store.Exec(ctx, m.home.Store, beginSQL, store.Args{"tenant_id": m.tenant, "target": m.to}); err != nil {
			return err
		}
		in, under, err := Place(ctx, m.home, m.tenant)
		switch {
		case err != nil:
			return err
		case under.Phase == "" && in == m.to:
			return ErrSameCell
		case under.Phase == Aborting:
			return ErrAborting
		case under.Source != m.from || under.Target != m.to:
			return ErrOtherMove
		}
		if err := m.checkFences(ctx, under.Phase); err != nil {
			return err
		}
		return m.runFrom(ctx, under.Phase)
	})
}

// runFrom takes the steps from a phase on. Each is named by the phase that it begins in.
func (m *Mover) runFrom(ctx context.Context, phase string) error {
	steps := []struct {
		phase string
		do    func(context.Context) error
	}{
		{Copying, m.copyAhead},
		{Draining, m.drain},
		{Left, m.switchOver},
		{Switched, m.wait},
		{Removing, m.remove},
	}
	if err := m.learnColumns(ctx); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	reached := false
	for i, step := range steps {
		if reached = reached || step.phase == phase; !reached {
			continue
		}
		m.log.InfoContext(ctx, "a tenant is moved", "tenant", m.tenant, "phase", step.phase)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("move: %s: %w", step.phase, err)
		}
		if i+1 < len(steps) && step.phase != Left { // switchOver has written it down
			if err := m.home.InTx(ctx, func(tx pgx.Tx) error { return m.setPhase(ctx, tx, step.phase, steps[i+1].phase) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// setPhase writes down the next phase of a move that is in the one before.
func (m *Mover) setPhase(ctx context.Context, tx pgx.Tx, before, phase string) error {
	err := tx.QueryRow(ctx, phaseSQL, store.Args{"tenant_id": m.tenant, "before": before, "phase": phase}).Scan(new(string))
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrBusy
	}
	return err
}

// do runs one statement on the tenant's rows, as a transaction of its own.
func (m *Mover) do(ctx context.Context, in *cell.Cell, sql string) error {
	return store.Exec(ctx, in.Store, sql, store.Args{"tenant_id": m.tenant})
}

// occupiedSQL: a tenant that was here before and left may have rows that were not removed yet.
const occupiedSQL = `
SELECT EXISTS (SELECT FROM jobs WHERE tenant_id = @tenant_id) OR EXISTS (SELECT FROM finished_jobs WHERE tenant_id = @tenant_id)
    OR EXISTS (SELECT FROM dead_letters WHERE tenant_id = @tenant_id) OR EXISTS (SELECT FROM queues WHERE tenant_id = @tenant_id)
    OR EXISTS (SELECT FROM schedules WHERE tenant_id = @tenant_id)`

// copyAhead makes the target ready, and copies what does not change any more while the source serves.
func (m *Mover) copyAhead(ctx context.Context) error {
	state, err := m.fenceOf(ctx, m.target)
	if err != nil {
		return err
	}
	if state == "" {
		occupied, err := store.Query(ctx, m.target.Store, pgx.RowTo[bool], occupiedSQL, store.Args{"tenant_id": m.tenant})
		if err != nil {
			return store.NotApplied(err)
		}
		if occupied[0] {
			return ErrOccupied
		}
		if err := m.removeAll(ctx, m.target, m.to); err != nil {
			return err
		}
	}
	if err := m.do(ctx, m.target, expectSQL); err != nil {
		return err
	}
	if err := m.waitOut(ctx, m.target); err != nil {
		return err
	}
	if m.to != "" {
		if err := directory.Bring(ctx, m.home.Store, m.target.Store, m.tenant); err != nil {
			return err
		}
	}
	// before anybody is refused
	if err := m.whenSameDays(ctx, func() error { return m.inBoth(ctx, func(b between) error { return m.sameDays(ctx, b) }) }); err != nil {
		return err
	}
	return m.copyEarlier(ctx)
}

const (
	// sameDaysTime bounds the wait for the two ledgers to be closed up to the same day, as around 00:05 UTC.
	sameDaysTime  = 30 * time.Second
	sameDaysPause = 500 * time.Millisecond
)

// whenSameDays does work once the two ledgers are closed up to the same day, and closes days for that.
func (m *Mover) whenSameDays(ctx context.Context, work func() error) error {
	for end := time.Now().Add(sameDaysTime); ; {
		err := work()
		if !errors.Is(err, ErrLedger) || time.Now().After(end) {
			return err
		}
		if err := m.closeDays(ctx); err != nil {
			return err
		}
		if err := wait.For(ctx, sameDaysPause); err != nil {
			return err
		}
	}
}

// closeDays closes the days of the two ledgers that can be closed.
func (m *Mover) closeDays(ctx context.Context) error {
	for _, one := range []*cell.Cell{m.source, m.target} {
		for {
			day, err := one.Ledger.CloseDay(ctx)
			if err != nil {
				return err
			}
			if day == nil || !day.Over || day.Holder != nil {
				break
			}
		}
	}
	return nil
}

// switchOver makes the target serve, and has the directory say so.
func (m *Mover) switchOver(ctx context.Context) error {
	if err := m.do(ctx, m.target, expectSQL); err != nil { // which waits for the copy of a run that was killed
		return err
	}
	state, err := m.fenceOf(ctx, m.target)
	if err != nil {
		return err
	}
	if state != fenceHere {
		if err := m.whenSameDays(ctx, func() error { return m.arrive(ctx) }); err != nil {
			return err
		}
	}
	return m.home.InTx(ctx, func(tx pgx.Tx) error {
		version, err := store.NextVersion(ctx, tx)
		if err != nil {
			return err
		}
		if err := m.setPhase(ctx, tx, Left, Switched); err != nil {
			return err
		}
		return m.place(ctx, tx, m.to, version)
	})
}

// place has the directory name the tenant's cell.
func (m *Mover) place(ctx context.Context, tx pgx.Tx, in string, version int64) error {
	if _, err := tx.Exec(ctx, switchSQL, store.Args{"tenant_id": m.tenant, "cell": store.NullIfEmpty(in), "version": version}); err != nil {
		return err
	}
	return audit.Record(audit.WithActor(ctx, audit.Actor{Kind: hop.PrincipalOperator}), tx, audit.Event{
		Tenant: &m.tenant, Action: api.AuditTenantPatch, Object: m.tenant.String(), Detail: map[string]any{"cell": store.NullIfEmpty(in)},
	})
}

// wait waits until no core reads the tenant's rows in the source any more.
func (m *Mover) wait(ctx context.Context) error {
	left, err := store.Query(ctx, m.home.Store, pgx.RowTo[time.Duration], settledSQL, store.Args{"tenant_id": m.tenant, "settle": m.settle})
	if err != nil || len(left) == 0 {
		return store.NotApplied(err)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(left[0]):
		return nil
	}
}
