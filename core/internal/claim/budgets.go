package claim

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/budget"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// readBudgets reads the accounts that the picked jobs use, under the claim locks of their tenants.
func (g *guard) readBudgets(ctx context.Context, tx pgx.Tx, picks []picked) (err error) {
	g.short, g.accounts = nil, nil // of the first try, see InTx
	var refs []budget.Ref
	for i := range picks {
		for ref := range g.amounts(&picks[i]) {
			refs = append(refs, ref)
		}
	}
	if len(refs) > 0 {
		g.accounts, err = budget.Load(ctx, tx, refs)
	}
	return err
}

// amounts are what a job may use of the budgets that there are.
func (g *guard) amounts(p *picked) map[budget.Ref]int64 {
	if len(p.Costs) == 0 {
		return nil
	}
	return g.budgets.Refs(p.TenantID, p.Costs, p.UserID, p.Key)
}

// reserve reserves what the job may use; false, and nothing is reserved, where a budget cannot pay it.
func (g *guard) reserve(p *picked) bool {
	amounts := g.amounts(p)
	for ref, amount := range amounts {
		if account := g.accounts[ref]; account != nil && !account.Pays(amount) {
			return false
		}
	}
	for ref, amount := range amounts {
		if account := g.accounts[ref]; account != nil {
			account.Reserve(amount)
		}
	}
	return true
}

// startedAt is when attempts start that reserve something: what they use counts in that part of a budget's time.
func (g *guard) startedAt() *time.Time {
	for _, account := range g.accounts {
		return &account.Now
	}
	return nil
}

// giveBackSQL puts jobs back to the gates of their keys.
const giveBackSQL = `
WITH short AS (
  UPDATE jobs SET ready_at = NULL, waiting_since = COALESCE(waiting_since, statement_timestamp()), gate = gate & 3 | 4
  WHERE id = ANY(@ids::uuid[]) AND state = 'queued'
  RETURNING tenant_id, queue, key
)
INSERT INTO key_checks (tenant_id, queue, keys) SELECT tenant_id, queue, array_agg(DISTINCT key) FROM short GROUP BY tenant_id, queue`

// giveBack queues the statement that takes the jobs out of the ready index that a budget cannot pay: an outcome used more than it
// had reserved, or closed the budget, after they had passed its line.
func (g *guard) giveBack(batch *pgx.Batch) {
	if len(g.short) == 0 {
		return
	}
	ids := make([]uuid.UUID, len(g.short))
	for i, p := range g.short {
		ids[i] = p.ID
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	batch.Queue(giveBackSQL, store.Args{"ids": ids})
	g.checks = true
}
