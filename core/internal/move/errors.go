package move

import "errors"

// Errors that an operator can act on.
var (
	// ErrUnknownTenant: the directory has no such tenant.
	ErrUnknownTenant = errors.New("there is no such tenant")
	// ErrSameCell: the tenant is there already.
	ErrSameCell = errors.New("the tenant is in this cell already")
	// ErrDeleting: the tenant is deleted, or is being deleted.
	ErrDeleting = errors.New("the tenant is deleted, or is being deleted: it stays in its cell")
	// ErrBusy: another command moves the tenant.
	ErrBusy = errors.New("another command moves this tenant at this moment; wait until it has ended")
	// ErrOtherMove: a move to another cell has begun.
	ErrOtherMove = errors.New("the tenant is being moved to another cell; let that move end, or end it with --abort")
	// ErrAborting: a move is being aborted.
	ErrAborting = errors.New("the tenant's move is being aborted; run the command with --abort again until it has ended")
	// ErrNoMove: there is nothing to abort.
	ErrNoMove = errors.New("the tenant is not being moved")
	// ErrTooLate: the target serves already.
	ErrTooLate = errors.New("the tenant has arrived in the new cell, which may have done jobs since: the move cannot be aborted; run it again without --abort, so that it ends")
	// ErrOccupied: the target has rows of the tenant, of which the directory knows nothing.
	ErrOccupied = errors.New("the target has data of this tenant, although the directory says that it is elsewhere, as after the restore of the home cell's backup; find out which is right before anything is moved")
	// ErrLost: a cell does not have what the move had done in it.
	ErrLost = errors.New("a cell has lost what this move had done in it, as after the failover to an asynchronous standby or the restore of a backup; end the move with --abort, and begin it again")
	// ErrCitus: one of the cells is distributed by Citus.
	ErrCitus = errors.New("the cell is a schema that Citus distributes: which transactions write there is known to its workers alone, and a move has to wait for them; its tenants are not moved; move the schema with citus_schema_move")
	// ErrLedger: the two cells have not closed the same days.
	ErrLedger = errors.New("the cells' ledgers are not closed up to the same day, which a transaction that began yesterday can hold up; run the command again in some minutes")
	// ErrSchemas: the tables differ.
	ErrSchemas = errors.New("the cells' tables differ; run `core migrate`")
)
