package tenants

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// The counts that are kept under a user's name.
const (
	forgetLimitStatsSQL = `
DELETE FROM limit_stats WHERE tenant_id = @tenant_id AND name = @user AND left(limit_name, 5) = 'user-'`

	forgetRatesSQL = `
DELETE FROM key_rates WHERE tenant_id = @tenant_id AND key = @user AND used_to < statement_timestamp()`

	// The sums by user stay those by day: what the user's jobs count for goes to the jobs without a user.
	forgetLedgerSQL = `
WITH gone AS (
  DELETE FROM ledger WHERE tenant_id = @tenant_id AND by = 'user' AND name = @user
  RETURNING *
)
INSERT INTO ledger (tenant_id, by, name, day, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms)
SELECT tenant_id, by, '', day, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms FROM gone
ON CONFLICT (tenant_id, by, name, day) DO UPDATE SET
  accepted = ledger.accepted + excluded.accepted, completed = ledger.completed + excluded.completed,
  dead_letter = ledger.dead_letter + excluded.dead_letter, redriven = ledger.redriven + excluded.redriven,
  cancelled = ledger.cancelled + excluded.cancelled, discarded = ledger.discarded + excluded.discarded,
  running_ms = ledger.running_ms + excluded.running_ms, failed_running_ms = ledger.failed_running_ms + excluded.failed_running_ms`

	forgetEntriesSQL = `
UPDATE ledger_entries SET user_id = '' WHERE tenant_id = @tenant_id AND user_id = @user`
)

// ForgetUser removes what is counted under a user's name, in a transaction: how often limits refused the user, rates of the user as
// a key, and the user's usage, which then counts as that of jobs without a user.
func ForgetUser(ctx context.Context, tx pgx.Tx, owner tenant.ID, user string) error {
	of := store.Args{"tenant_id": owner, "user": user}
	batch := &pgx.Batch{}
	for _, statement := range []string{forgetLimitStatsSQL, forgetRatesSQL, forgetLedgerSQL, forgetEntriesSQL} {
		batch.Queue(statement, of)
	}
	return tx.SendBatch(ctx, batch).Close()
}
