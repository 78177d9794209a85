package move

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// The states of a fence, see migration 33.
const (
	fenceLeaving  = "leaving"
	fenceLeft     = "left"
	fenceArriving = "arriving"
	fenceHere     = "here"
)

// throughSQL lets the transaction's own writes through the tenant's fence.
const throughSQL = `SELECT set_config('forgequeue.moving', @tenant::text, true)`

// throughFence is InTx for the mover's own writes.
func throughFence(ctx context.Context, in *cell.Cell, owner tenant.ID, work func(pgx.Tx) error) error {
	return in.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, throughSQL, store.Args{"tenant": owner.String()}); err != nil {
			return err
		}
		return work(tx)
	})
}

// fenceBody is the trigger function of a table, with its rules. Statements in it have a snapshot of their own: a write
// that waited for the lock of closeFence sees what that has committed.
const fenceBody = `
CREATE OR REPLACE FUNCTION tenant_fence_%[1]s() RETURNS trigger LANGUAGE plpgsql AS $fence$
DECLARE
  held text;
  mine boolean := true;
BEGIN
%[2]s  IF mine THEN
    SELECT state INTO held FROM tenant_fences WHERE tenant_id = TG_ARGV[0]::uuid;
  END IF;
  IF held IN ('left', 'arriving') THEN
    %[3]s
    RAISE EXCEPTION 'the tenant is in another cell, or is being moved to one' USING ERRCODE = '` + store.TenantMovedCode + `', DETAIL = TG_ARGV[0];
  END IF;
  IF held = 'leaving' THEN
%[4]s  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END $fence$`

// forRow is a statement with ROW for the row that is written.
func forRow(statement string) string {
	return "  IF TG_OP = 'INSERT' THEN " + strings.ReplaceAll(statement, "ROW", "NEW") + " ELSE " + strings.ReplaceAll(statement, "ROW", "OLD") + " END IF;\n"
}

// fenceFunction is the statement that makes a table's trigger function.
func (t *table) fenceFunction() string {
	mine, note := "", "    NULL;\n"
	if t.parent != "" {
		mine = forRow(fmt.Sprintf(`mine := EXISTS (SELECT FROM %s WHERE id = ROW.%s AND tenant_id = TG_ARGV[0]::uuid);`, t.parent, t.by))
	}
	if t.noted != "" {
		note = forRow(fmt.Sprintf(`INSERT INTO tenant_changes (tenant_id, kind, id) VALUES (TG_ARGV[0]::uuid, '%s', ROW.%s);`, t.kind(), t.noted))
	}
	return fmt.Sprintf(fenceBody, t.name, mine, t.rules, note)
}

// The two triggers of a table. Once the tenant has left, the one for new rows stays.
func triggerNames(owner tenant.ID) (in, out string) {
	text := strings.ReplaceAll(owner.String(), "-", "")
	return "tenant_in_" + text, "tenant_out_" + text
}

// fenceTriggers are the statements that make them.
func (t *table) fenceTriggers(owner tenant.ID) []string {
	in, out := triggerNames(owner)
	statement := func(name, events, row string) string {
		mine := fmt.Sprintf("current_setting('forgequeue.moving', true) IS DISTINCT FROM '%s'", owner)
		if t.owner != "" {
			mine = fmt.Sprintf("%s.%s = %s AND ", row, t.owner, quoted(owner)) + mine
		}
		return fmt.Sprintf("CREATE OR REPLACE TRIGGER %s BEFORE %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION tenant_fence_%s('%s')",
			name, events, t.name, mine, t.name, owner)
	}
	return []string{statement(in, "INSERT", "NEW"), statement(out, "UPDATE OR DELETE", "OLD")}
}

func fenced() []table {
	var some []table
	for _, one := range tables() {
		if !one.open {
			some = append(some, one)
		}
	}
	return some
}

const (
	// lockTime bounds a wait for a lock that others' writes queue behind. It is below deadlock_timeout.
	lockTime  = 500 * time.Millisecond
	lockTries = 120
	lockPause = 300 * time.Millisecond
)

// withShortLocks runs statements under locks of tables that nobody may wait for long: it gives up soon, and tries again.
func withShortLocks(ctx context.Context, in *cell.Cell, work func(context.Context, pgx.Tx) error) (err error) {
	for range lockTries {
		err = in.InTx(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', @timeout, true)`, store.Args{"timeout": lockTime.String()}); err != nil {
				return err
			}
			return work(ctx, tx)
		})
		if !store.LockTimedOut(err) && !store.Deadlocked(err) {
			return err
		}
		if err := wait.About(ctx, lockPause); err != nil {
			return err
		}
	}
	return errors.Join(ErrLocked, err)
}

// install makes the triggers, table by table.
func install(ctx context.Context, in *cell.Cell, owner tenant.ID) error {
	for _, one := range fenced() {
		if err := withShortLocks(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
			return execAll(ctx, tx, append([]string{one.fenceFunction()}, one.fenceTriggers(owner)...)...)
		}); err != nil {
			return fmt.Errorf("fence of %s: %w", one.name, err)
		}
	}
	return nil
}

// triggersSQL gives the tables that have a trigger of the name; those of partitions go with them.
const triggersSQL = `
SELECT c.relname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE t.tgname = @name AND t.tgparentid = 0 AND c.relnamespace = ` + store.OwnSchemaSQL

// dropTriggers drops the triggers for changes of rows that are there, and with all those for new ones too. Those of
// a child are called for rows of all tenants, so they go in any case.
func dropTriggers(ctx context.Context, in *cell.Cell, owner tenant.ID, all bool) error {
	into, out := triggerNames(owner)
	children := map[string]bool{}
	for _, one := range fenced() {
		children[one.name] = one.parent != ""
	}
	for _, trigger := range []string{out, into} {
		names, err := store.Query(ctx, in.Store, pgx.RowTo[string], triggersSQL, store.Args{"name": trigger})
		if err != nil {
			return store.NotApplied(err)
		}
		for _, name := range names {
			if trigger == into && !all && !children[name] {
				continue
			}
			if err := withShortLocks(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
				return execAll(ctx, tx, fmt.Sprintf("DROP TRIGGER IF EXISTS %s ON %s", trigger, name))
			}); err != nil {
				return fmt.Errorf("fence of %s: %w", name, err)
			}
		}
	}
	return nil
}

func execAll(ctx context.Context, tx pgx.Tx, statements ...string) error {
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

const (
	readFenceSQL = `
SELECT COALESCE((SELECT state FROM tenant_fences WHERE tenant_id = @tenant_id), '')`
	lockFenceSQL = `
SELECT state FROM tenant_fences WHERE tenant_id = @tenant_id FOR UPDATE`
	setFenceSQL = `
INSERT INTO tenant_fences (tenant_id, state) VALUES (@tenant_id, @state)
ON CONFLICT (tenant_id) DO UPDATE SET state = EXCLUDED.state`
	forgetFenceSQL = `
DELETE FROM tenant_fences WHERE tenant_id = @tenant_id`
)

func setFence(ctx context.Context, tx pgx.Tx, owner tenant.ID, state string) error {
	_, err := tx.Exec(ctx, setFenceSQL, store.Args{"tenant_id": owner, "state": state})
	return err
}

// closeFence refuses the tenant's writes. The locks are free once all writers are done, so that what they have
// written is in each later snapshot; writers that wait for the locks meanwhile find the fence closed.
func closeFence(ctx context.Context, in *cell.Cell, owner tenant.ID) error {
	names := make([]string, 0, len(tables()))
	for _, one := range fenced() {
		names = append(names, one.name)
	}
	return withShortLocks(ctx, in, func(ctx context.Context, tx pgx.Tx) error {
		if err := execAll(ctx, tx, "LOCK TABLE "+strings.Join(names, ", ")+" IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		return setFence(ctx, tx, owner, fenceLeft)
	})
}
