package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// columnsSQL gives the columns of tables that rows are copied with: numbers of rows come from sequences of the target.
const columnsSQL = `
SELECT name, ARRAY(SELECT attname::text FROM pg_attribute
                   WHERE attrelid = name::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''
                   ORDER BY attname) AS columns
FROM unnest(@names::text[]) AS name`

// between is a transaction in each of the two cells. That of the source has one snapshot.
type between struct {
	source, target pgx.Tx
	columns        map[string][]string
}

// patientSQL: one of the two waits while the other works.
const patientSQL = `
SELECT set_config('idle_in_transaction_session_timeout', '10min', true)`

// inBoth is inBothThen without a last batch.
func (m *Mover) inBoth(ctx context.Context, work func(between) error) error {
	return m.inBothThen(ctx, func(b between) (*pgx.Batch, error) { return nil, work(b) })
}

// inBothThen runs work in a transaction of each cell; what it does in the target is committed, together with the batch that it
// returns, in the source nothing.
func (m *Mover) inBothThen(ctx context.Context, work func(between) (*pgx.Batch, error)) error {
	return m.target.InShortTx(ctx, nil, func(target pgx.Tx) (last *pgx.Batch, err error) {
		return last, m.source.InTx(ctx, func(source pgx.Tx) error {
			if _, err := source.Exec(ctx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`); err != nil {
				return err
			}
			for _, tx := range []pgx.Tx{source, target} {
				if _, err := tx.Exec(ctx, patientSQL); err != nil {
					return err
				}
			}
			last, err = work(between{source, target, m.columns})
			return err
		})
	})
}

// stillArriving refuses to copy where another run has ended the copy, or the move. That of a run that was killed may be under way:
// who changes the state of the target waits for it.
func (m *Mover) stillArriving(ctx context.Context, b between) error {
	var state string
	err := b.target.QueryRow(ctx, shareFenceSQL, store.Args{"tenant_id": m.tenant}).Scan(&state)
	if err == nil && state != fenceArriving || errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("the tenant is %q in the target: %w", state, ErrAborting)
	}
	return err
}

// learnColumns reads the columns of all tables, and refuses tables that differ. Behind the fence each statement counts.
func (m *Mover) learnColumns(ctx context.Context) error {
	names := []string{"ledger_days"}
	for _, one := range tables() {
		names = append(names, one.name)
	}
	type row struct {
		Name    string
		Columns []string
	}
	read := func(in *cell.Cell) (map[string][]string, error) {
		rows, err := store.Query(ctx, in.Store, pgx.RowToStructByName[row], columnsSQL, store.Args{"names": names})
		columns := map[string][]string{}
		for _, one := range rows {
			columns[one.Name] = one.Columns
		}
		return columns, store.NotApplied(err)
	}
	var err error
	if m.columns, err = read(m.source); err != nil {
		return err
	}
	others, err := read(m.target)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Equal(m.columns[name], others[name]) {
			return fmt.Errorf("%w: %s", ErrSchemas, name)
		}
	}
	return nil
}

// filled says which of some tables have rows of the tenant in the source's snapshot.
func (b between) filled(ctx context.Context, some []table, owner tenant.ID) (filled []bool, err error) {
	exist := make([]string, len(some))
	for i := range some {
		exist[i] = "EXISTS (SELECT FROM " + some[i].name + " AS t WHERE " + some[i].condition("t", owner) + ")"
	}
	err = b.source.QueryRow(ctx, "SELECT ARRAY["+strings.Join(exist, ", ")+"]").Scan(&filled)
	return filled, err
}

// copyRows copies the rows of a table that a condition selects, in which the table is t. change gives what some columns
// become; lanes are those of the target. In the order of the rows in the source, so that numbers from a sequence have it too.
func (b between) copyRows(ctx context.Context, name, condition string, change map[string]string) (int64, error) {
	return b.copyInto(ctx, name, name, condition, change)
}

func (b between) copyInto(ctx context.Context, name, into, condition string, change map[string]string) (int64, error) {
	columns := slices.Clone(b.columns[name])
	selected, join := make([]string, len(columns)), ""
	for i, column := range columns {
		selected[i] = "t." + pgx.Identifier{column}.Sanitize()
		if column == "lane_id" {
			selected[i] = "CASE WHEN t.lane_id IS NOT NULL THEN COALESCE(moved_lanes.new, (SELECT new FROM moved_lanes WHERE old IS NULL)) END"
			join = "LEFT JOIN moved_lanes ON moved_lanes.old = t.lane_id "
		}
		if changed, there := change[column]; there {
			selected[i] = changed
		}
		columns[i] = pgx.Identifier{column}.Sanitize()
	}
	order := map[string]string{"follow_ups": " ORDER BY t.id", "webhook_events": " ORDER BY t.event_id"}[name]
	read, write := io.Pipe()
	given := make(chan error, 1)
	go func() {
		_, err := b.source.Conn().PgConn().CopyTo(ctx, write,
			"COPY (SELECT "+strings.Join(selected, ", ")+" FROM "+name+" AS t "+join+"WHERE "+condition+order+") TO STDOUT")
		_ = write.CloseWithError(err) // nil is the end
		given <- err
	}()
	copied, err := b.target.Conn().PgConn().CopyFrom(ctx, read, "COPY "+into+" ("+strings.Join(columns, ", ")+") FROM STDIN")
	_ = read.CloseWithError(io.ErrClosedPipe)
	if gave := <-given; gave != nil && err == nil {
		err = gave
	}
	if err != nil {
		return 0, fmt.Errorf("copy %s: %w", name, err)
	}
	return copied.RowsAffected(), nil
}

const (
	// lanesSQL: jobs of a lane that is gone are moved by a duty from any lane without a row.
	lanesSQL = `
SELECT id, queue, type, tags::text AS tags, capped_user, fair, budgeted, requested_by, created_at FROM lanes WHERE tenant_id = @tenant_id ORDER BY id`
	drawLanesSQL = `
INSERT INTO lanes (tenant_id, queue, type, tags, capped_user, fair, budgeted, requested_by, created_at, used_at)
SELECT @tenant_id, l.queue, l.type, l.tags::text[], l.capped_user, l.fair, l.budgeted, l.requested_by, l.created_at, statement_timestamp()
FROM unnest(@queues::text[], @types::text[], @tags::text[], @users::text[], @fair::boolean[], @budgeted::boolean[], @makers::text[], @made::timestamptz[])
  AS l(queue, type, tags, capped_user, fair, budgeted, requested_by, created_at)
ON CONFLICT (tenant_id, queue, type, tags, capped_user, fair, budgeted) DO UPDATE SET used_at = EXCLUDED.used_at, retired_at = NULL
RETURNING id, queue, type, tags::text AS tags, capped_user, fair, budgeted`
	noLaneSQL = `
SELECT nextval(pg_get_serial_sequence('lanes', 'id'))`
	movedLanesSQL = `
CREATE TEMP TABLE moved_lanes ON COMMIT DROP AS
SELECT * FROM unnest(@old::bigint[], @new::bigint[]) AS lanes(old, new)`
)

type laneRow struct {
	ID          lanes.ID
	Queue       string
	Type        string
	Tags        string
	CappedUser  string
	Fair        bool
	Budgeted    bool
	RequestedBy string
	CreatedAt   time.Time
}

type laneName struct {
	queue, jobType, tags, user string
	fair, budgeted             bool
}

func (r *laneRow) name() laneName {
	return laneName{r.Queue, r.Type, r.Tags, r.CappedUser, r.Fair, r.Budgeted}
}

// mapLanes makes the lanes of the source's snapshot in the target, and a table of old and new ids in the source. They are
// committed at once: a core of the target has read them before it meets the first job.
func (m *Mover) mapLanes(ctx context.Context, b between) error {
	rows, err := b.source.Query(ctx, lanesSQL, store.Args{"tenant_id": m.tenant})
	if err != nil {
		return err
	}
	old, err := pgx.CollectRows(rows, pgx.RowToStructByName[laneRow])
	if err != nil {
		return err
	}
	drawn := map[laneName]lanes.ID{}
	var none lanes.ID
	if err := m.target.InTx(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, noLaneSQL).Scan(&none); err != nil || len(old) == 0 {
			return err
		}
		return m.drawLanes(ctx, tx, old, drawn)
	}); err != nil {
		return fmt.Errorf("lanes: %w", err)
	}
	from, to := []*lanes.ID{nil}, []lanes.ID{none}
	for i := range old {
		from, to = append(from, &old[i].ID), append(to, drawn[old[i].name()])
	}
	_, err = b.source.Exec(ctx, movedLanesSQL, store.Args{"old": from, "new": to})
	return err
}

func (m *Mover) drawLanes(ctx context.Context, tx pgx.Tx, old []laneRow, drawn map[laneName]lanes.ID) error {
	queues, types, tags := make([]string, len(old)), make([]string, len(old)), make([]string, len(old))
	users, makers, made, fair, budgeted := make([]string, len(old)), make([]string, len(old)), make([]time.Time, len(old)), make([]bool, len(old)), make([]bool, len(old))
	for i := range old {
		queues[i], types[i], tags[i] = old[i].Queue, old[i].Type, old[i].Tags
		users[i], makers[i], made[i], fair[i], budgeted[i] = old[i].CappedUser, old[i].RequestedBy, old[i].CreatedAt, old[i].Fair, old[i].Budgeted
	}
	rows, err := tx.Query(ctx, drawLanesSQL, store.Args{
		"tenant_id": m.tenant, "queues": queues, "types": types, "tags": tags, "users": users, "fair": fair, "budgeted": budgeted, "makers": makers, "made": made,
	})
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[laneRow])
	for i := range found {
		drawn[found[i].name()] = found[i].ID
	}
	return err
}
