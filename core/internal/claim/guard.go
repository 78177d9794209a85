package claim

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/budget"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// extraPicks is how many jobs more than twice the wanted number are picked: those under a shared cap
// may have to be left.
const extraPicks = 20

const leasePickedSQL = `
WITH chosen AS MATERIALIZED (
  SELECT array_agg(id ORDER BY id) AS ids, array_agg(place ORDER BY id) AS places, count(*) AS picked
  FROM unnest(@ids::uuid[]) WITH ORDINALITY AS p(id, place)
)
` + leaseSQL

// picked is a job that a claim has locked.
type picked struct {
	ID       uuid.UUID
	LaneID   lanes.ID
	Priority int16
	ReadyAt  time.Time
	UserID   *string
	Size     int
	TenantID tenant.ID
	Queue    string
	Key      *string
	Costs    api.Amounts

	// left says that it was not leased, throttled that a cap or a rate was the reason.
	left, throttled bool
}

// claimGuarded claims where some of the lanes are under a running cap or a rate. It locks jobs,
// leaves those without capacity, and leases the others, all under the locks of their tenants:
// running ≤ cap holds at every commit.
func (s *Claimer) claimGuarded(ctx context.Context, request *Request) (taken Result, err error) {
	var guard *guard
	err = s.InShortTx(ctx, func(batch *pgx.Batch) {
		guard = s.enter(batch, request.Lanes)
	}, func(tx pgx.Tx) (*pgx.Batch, error) {
		if err := guard.settle(ctx, tx, request.Lanes); err != nil {
			return nil, err
		}
		claim := request.without(guard.busy)
		shares := guard.shares(claim)
		most := 2*claim.max() + extraPicks
		picks, err := pick(ctx, tx, claim, shares, most)
		if err != nil {
			return nil, err
		}
		if err := guard.readBudgets(ctx, tx, picks); err != nil {
			return nil, err
		}
		chosen, misrouted, cut := guard.choose(claim, picks)
		taken = Result{Misrouted: misrouted, Cut: cut, Busy: slices.Collect(maps.Keys(guard.busy)), Scanned: scanned(shares, picks, most)}
		guard.explain(claim, taken.Scanned)
		if len(claim.Without) > 0 { // jobs of these users were skipped: no cursor may pass them
			for i := range taken.Scanned {
				taken.Scanned[i].To = jobs.Cursor{}
			}
		}
		return guard.lease(claim, chosen, &taken.Jobs), nil
	})
	if err != nil {
		return Result{}, err
	}
	s.counts.ReportUse(guard.counts)
	if guard.checks {
		s.gates.Appended()
	}
	byPlace(taken.Jobs)
	return taken, nil
}

// tryLocksSQL takes the claim locks that are free. A claim without its lock is retried: a wait here
// would hold a connection and the locks of other tenants.
const tryLocksSQL = `
SELECT pg_try_advisory_xact_lock(t.key) FROM unnest(@locks::bigint[]) WITH ORDINALITY AS t(key, place) ORDER BY t.place`

// guard holds the claim locks of tenants, and the capacity under their caps and rates.
type guard struct {
	counts *caps.Tally
	rates  caps.Rates
	// budgets are those of the tenants of budgeted lanes, accounts those that the picked jobs use.
	budgets  budget.Definitions
	accounts budget.Accounts
	// short are jobs that a budget cannot pay now: they go back to the gate.
	short []*picked
	// checks says that checks of gates were appended.
	checks bool
	// busy are the tenants whose lock another claim holds.
	busy map[tenant.ID]bool
}

// capacity is how many more jobs of a lane may start; -1 for any number.
func (g *guard) capacity(lane *Lane) int64 {
	capacity := g.counts.Capacity(lane.Caps)
	for i := range lane.Rates {
		if left := g.rates.Capacity(&lane.Rates[i]); capacity < 0 || left < capacity {
			capacity = left
		}
	}
	return capacity
}

// full are the lane's caps without capacity; none if one of its rates has none either, which will change
// without the end of a job.
func (g *guard) full(lane *Lane) (full FullCaps) {
	for i := range lane.Rates {
		if g.rates.Capacity(&lane.Rates[i]) == 0 {
			return nil
		}
	}
	for _, one := range lane.Caps {
		if g.counts.Capacity([]caps.Cap{one}) == 0 {
			full = append(full, one)
		}
	}
	return full
}

// explain adds the full caps to the lists that were throttled.
func (g *guard) explain(claim *Request, all []ScanProgress) {
	lanes := claim.byID()
	for i := range all {
		if one := &all[i]; one.Throttled {
			one.Full = g.full(lanes[one.Lane])
		}
	}
}

func (g *guard) take(lane *Lane) {
	g.counts.Take(lane.Caps, 1)
	for i := range lane.Rates {
		g.rates.Take(&lane.Rates[i])
	}
}

// enter takes the free locks of the lanes' tenants, and reads counts and rates in later statements.
// The guard has them once the batch has run.
func (s *Claimer) enter(batch *pgx.Batch, lanes []Lane) *guard {
	keys, rates := caps.KeysOf(capsOf(lanes)...), ratesOf(lanes)
	entered := &guard{counts: &caps.Tally{}, busy: map[tenant.ID]bool{}, budgets: budget.Definitions{}}
	budgeted := budgetedTenants(lanes)
	tenants := lockedTenants(keys, rates, budgeted)
	if len(tenants) == 0 {
		return entered
	}
	locks := make([]int64, len(tenants))
	for i, id := range tenants {
		locks[i] = s.LockKey(store.LockClaim, id)
	}
	batch.Queue(tryLocksSQL, store.Args{"locks": locks}).Query(func(rows pgx.Rows) error {
		free, err := pgx.CollectRows(rows, pgx.RowTo[bool])
		for i := range free {
			if !free[i] {
				entered.busy[tenants[i]] = true
			}
		}
		return err
	})
	caps.QueueRead(batch, entered.counts, keys)
	entered.rates.Read(batch, rates)
	if len(budgeted) > 0 {
		batch.Queue(budget.DefinitionsSQL, store.Args{"tenants": budgeted}).Query(entered.budgets.Scan)
	}
	return entered
}

// settle leaves out the counts of busy tenants, and makes those of the others exact.
func (g *guard) settle(ctx context.Context, tx pgx.Tx, lanes []Lane) error {
	for key := range g.counts.Counts {
		if g.busy[key.Tenant] {
			delete(g.counts.Counts, key)
		}
	}
	if err := g.counts.EnsureRows(ctx, tx); err != nil {
		return err
	}
	return g.counts.Exact(ctx, tx, capsOf(lanes)...)
}

func capsOf(lanes []Lane) [][]caps.Cap {
	caps := make([][]caps.Cap, len(lanes))
	for i := range lanes {
		caps[i] = lanes[i].Caps
	}
	return caps
}

// without removes the lanes of busy tenants; the installation's lock is needed by all under its
// cap.
func (c *Request) without(busy map[tenant.ID]bool) *Request {
	if len(busy) == 0 {
		return c
	}
	kept := *c
	kept.Lanes = nil
	for _, lane := range c.Lanes {
		installation := caps.BitsOf(lane.Caps)&caps.RunningAll != 0
		if !busy[lane.Tenant] && (!installation || !busy[tenant.Platform]) {
			kept.Lanes = append(kept.Lanes, lane)
		}
	}
	return &kept
}

// lockedTenants are those whose lock the claim takes, each once, in one order for all callers.
func lockedTenants(keys []caps.CountKey, limits []*caps.Rate, budgeted []tenant.ID) []tenant.ID {
	tenants := slices.Clone(budgeted)
	for _, key := range keys {
		tenants = append(tenants, key.Tenant)
	}
	for _, rate := range limits {
		tenants = append(tenants, rate.Tenant)
	}
	slices.SortFunc(tenants, func(a, b tenant.ID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(tenants)
}

// budgetedTenants are those of budgeted lanes.
func budgetedTenants(lanes []Lane) []tenant.ID {
	var tenants []tenant.ID
	for i := range lanes {
		if lanes[i].Budgeted && !slices.Contains(tenants, lanes[i].Tenant) {
			tenants = append(tenants, lanes[i].Tenant)
		}
	}
	return tenants
}

// shares splits the claim's shares by lane, each with as many jobs as its caps and its rate have
// capacity for: a lane without capacity is skipped, not scanned. What lanes share, a share or a
// cap, is applied by choose, job by job.
func (g *guard) shares(claim *Request) []Share {
	var parted []Share
	byID := claim.byID()
	for _, share := range claim.shares() {
		places := map[lanes.ID]int{}
		for _, list := range share.Lists {
			lane := byID[list.Lane]
			if lane == nil {
				continue // its tenant is busy
			}
			place, known := places[list.Lane]
			if !known {
				most := int64(share.Most)
				if left := g.capacity(lane); left >= 0 {
					most = min(most, left)
				}
				place = len(parted)
				places[list.Lane] = place
				parted = append(parted, Share{Most: int(most)})
			}
			parted[place].Lists = append(parted[place].Lists, list)
		}
	}
	return parted
}

func pick(ctx context.Context, tx pgx.Tx, claim *Request, shares []Share, most int) ([]picked, error) {
	statement, scan := pickSQL, scanPicked
	if len(budgetedTenants(claim.Lanes)) > 0 {
		statement, scan = pickBudgetedSQL, scanPickedBudgeted
	}
	rows, err := tx.Query(ctx, statement, pickArgs(shares, most, claim.Without))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

func scanPicked(row pgx.CollectableRow) (p picked, err error) {
	err = row.Scan(p.columns()...)
	return p, err
}

func scanPickedBudgeted(row pgx.CollectableRow) (p picked, err error) {
	err = row.Scan(append(p.columns(), &p.TenantID, &p.Queue, &p.Key, &p.Costs)...)
	return p, err
}

// columns are those of pickSQL.
func (p *picked) columns() []any {
	return []any{&p.LaneID, &p.Priority, &p.ID, &p.ReadyAt, &p.UserID, &p.Size}
}

// choose takes, in the order of shares and lists, the jobs that every cap has capacity for, and
// marks the picked jobs that it leaves. It ends with the first job above the limit of bytes: cut.
func (g *guard) choose(claim *Request, picks []picked) (ids []uuid.UUID, misrouted []MisroutedJob, cut bool) {
	lanes := claim.byID()
	most := claim.max()
	bytes := int64(0)
	for _, share := range claim.shares() {
		taken := 0
		for _, list := range share.Lists {
			for i := range picks {
				p := &picks[i]
				if !p.in(list) {
					continue
				}
				lane := lanes[p.LaneID]
				switch {
				case p.UserID != nil && lane.IsMisrouted != nil && lane.IsMisrouted(*p.UserID):
					p.left = true
					misrouted = append(misrouted, MisroutedJob{jobs.Ready{Lane: p.LaneID, Priority: p.Priority, At: p.ReadyAt, ID: p.ID}, *p.UserID})
				case cut || len(ids) == most || taken == share.Most:
					p.left = true
				case g.capacity(lane) == 0:
					p.left, p.throttled = true, true
				case len(ids) > 0 && bytes+p.bytes() > claim.bytes():
					p.left, cut = true, true
				case !g.reserve(p):
					g.short = append(g.short, p)
				default:
					g.take(lane)
					taken++
					bytes += p.bytes()
					ids = append(ids, p.ID)
				}
			}
		}
	}
	return ids, misrouted, cut
}

// bytes is the job's size in an answer.
func (p *picked) bytes() int64 { return int64(p.Size) + jobOverhead }

// lease gives the statements that lease the locked jobs and write counts and rates; jobs has the
// leased ones once they have run.
func (g *guard) lease(claim *Request, ids []uuid.UUID, jobs *[]Job) *pgx.Batch {
	batch := &pgx.Batch{}
	if len(ids) > 0 {
		args := claim.leaseArgs()
		args["ids"], args["at"] = ids, g.startedAt()
		batch.Queue(leasePickedSQL, args).Query(func(rows pgx.Rows) (err error) {
			*jobs, err = pgx.CollectRows(rows, scanJob)
			return err
		})
	}
	g.counts.Append(batch)
	g.rates.Append(batch)
	g.checks = g.accounts.Append(batch)
	g.giveBack(batch)
	return batch
}

// ratesOf lists the rates of lanes, each once, in order.
func ratesOf(lanes []Lane) []*caps.Rate {
	var limits []*caps.Rate
	for i := range lanes {
		for j := range lanes[i].Rates {
			limits = append(limits, &lanes[i].Rates[j])
		}
	}
	slices.SortFunc(limits, func(a, b *caps.Rate) int { return a.Compare(b.QueueKey) })
	return slices.CompactFunc(limits, func(a, b *caps.Rate) bool { return a.QueueKey == b.QueueKey })
}
