package budget

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Account is what is used of a Ref, as it was read, and what was reserved since. Nothing is stored before Append.
type Account struct {
	Ref
	*Definition
	// Now is PostgreSQL's time of the read.
	Now time.Time

	seq     int64
	counted []counted
	running int64
	day     time.Time
	sums    sums
	// folded are the settlements that are in it, reserved what was reserved since; days are sums of other days.
	folded   []int64
	reserved int64
	days     map[time.Time]sums
}

// counted is what was used in a part of the time.
type counted struct {
	begin  time.Time
	amount int64
}

// sums are those of a day.
type sums struct{ reserved, used, overdrawn int64 }

func (s sums) add(more sums) sums {
	return sums{s.reserved + more.reserved, s.used + more.used, s.overdrawn + more.overdrawn}
}

// lateSettlement is how long after its statement's time a settlement may be committed, and be found by claims.
const lateSettlement = time.Minute

// accountsSQL reads definitions, the newest rows of the log and the settlements since: one statement has one snapshot.
const accountsSQL = `
SELECT (asked.place - 1)::integer AS place, statement_timestamp() AS now,
  b.name, b.unit, b.amount, b.per_ms, b."window", b.timezone, b.burst, b.by, b.closed_until, b.created_at, b.updated_at,
  COALESCE(log.seq, 0) AS seq, log.parts, log.amounts, COALESCE(log.running, 0) AS running,
  log.day, COALESCE(log.reserved, 0) AS reserved, COALESCE(log.used, 0) AS used, COALESCE(log.overdrawn, 0) AS overdrawn,
  settled.ids, settled.starts, settled.reserves, settled.uses
FROM unnest(@tenants::uuid[], @names::text[], @subjects::text[]) WITH ORDINALITY AS asked(tenant_id, name, subject, place)
JOIN budgets AS b ON b.tenant_id = asked.tenant_id AND b.name = asked.name
LEFT JOIN LATERAL (
  SELECT * FROM budget_log AS l
  WHERE l.tenant_id = asked.tenant_id AND l.budget = asked.name AND l.subject = asked.subject
  ORDER BY l.seq DESC LIMIT 1
) AS log ON true
LEFT JOIN LATERAL (
  SELECT array_agg(s.id) AS ids, array_agg(s.started_at) AS starts, array_agg(s.reserved) AS reserves, array_agg(s.used) AS uses
  FROM budget_settlements AS s
  WHERE s.tenant_id = asked.tenant_id AND s.budget = asked.name AND s.subject = asked.subject AND (@all OR s.at >= COALESCE(log.since, '-infinity'))
) AS settled ON true`

type accountRow struct {
	Place int32
	Now   time.Time
	Definition

	Seq       int64
	Parts     []time.Time
	Amounts   []int64
	Running   int64
	Day       *time.Time
	Reserved  int64
	Used      int64
	Overdrawn int64

	IDs      []int64
	Starts   []time.Time
	Reserves []int64
	Uses     []int64
}

// Accounts are those of some Refs; one whose budget does not exist is not among them.
type Accounts map[Ref]*Account

// Load reads accounts.
func Load(ctx context.Context, db store.Querier, refs []Ref) (Accounts, error) {
	return load(ctx, db, refs, false)
}

// load reads accounts, with all settlements or the late ones left out.
func load(ctx context.Context, db store.Querier, refs []Ref, all bool) (Accounts, error) {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, Ref.Compare)
	refs = slices.Compact(refs)
	tenants, names, subjects := make([]uuid.UUID, len(refs)), make([]string, len(refs)), make([]string, len(refs))
	for i, ref := range refs {
		tenants[i], names[i], subjects[i] = ref.Tenant, ref.Name, ref.Subject
	}
	rows, err := db.Query(ctx, accountsSQL, store.Args{"tenants": tenants, "names": names, "subjects": subjects, "all": all})
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[accountRow])
	made := make(Accounts, len(found))
	for _, row := range found {
		made[refs[row.Place]] = row.account(refs[row.Place])
	}
	return made, err
}

// account counts the settlements in.
func (r *accountRow) account(ref Ref) *Account {
	made := &Account{
		Ref: ref, Definition: &r.Definition, Now: r.Now, seq: r.Seq, running: r.Running, folded: r.IDs,
		day: dayOf(r.Now), sums: sums{r.Reserved, r.Used, r.Overdrawn}, days: map[time.Time]sums{},
	}
	for i := range r.Parts {
		made.counted = append(made.counted, counted{r.Parts[i], r.Amounts[i]})
	}
	if r.Day != nil && !r.Day.Equal(made.day) { // the log's row is of an earlier day
		made.days[*r.Day], made.sums = made.sums, sums{}
	}
	for i := range r.IDs {
		made.settle(r.Starts[i], r.Reserves[i], r.Uses[i])
	}
	made.counted = slices.DeleteFunc(made.counted, func(c counted) bool { return !made.over(c.begin).After(made.Now) })
	return made
}

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// settle counts what an attempt has used in the place of what it had reserved, in the part in which it started.
func (a *Account) settle(start time.Time, reserved, used int64) {
	a.running = max(a.running-reserved, 0)
	a.count(start, used-reserved)
	a.sum(start, sums{used: used, overdrawn: max(used-reserved, 0)})
}

func (a *Account) sum(at time.Time, more sums) {
	if day := dayOf(at); !day.Equal(a.day) {
		a.days[day] = a.days[day].add(more)
	} else {
		a.sums = a.sums.add(more)
	}
}

// count adds an amount to the part that a time is in. A part never has less than nothing: an attempt that reserved before the
// budget was deleted and created again reserved nothing here.
func (a *Account) count(at time.Time, amount int64) {
	begin := a.begin(at)
	for i := range a.counted {
		if a.counted[i].begin.Equal(begin) {
			a.counted[i].amount = max(a.counted[i].amount+amount, 0)
			return
		}
	}
	if amount > 0 {
		a.counted = append(a.counted, counted{begin, amount})
	}
}

// Available is how much may be reserved now; below zero where more was used than reserved.
func (a *Account) Available() int64 {
	left := a.Holds()
	for _, c := range a.counted {
		left -= c.amount
	}
	return left
}

// Running is what running jobs have reserved.
func (a *Account) Running() int64 { return a.running }

// Closed says that the budget is closed now.
func (a *Account) Closed() bool { return a.ClosedUntil != nil && a.ClosedUntil.After(a.Now) }

// Pays says whether so much can be reserved now.
func (a *Account) Pays(amount int64) bool { return !a.Closed() && amount <= a.Available() }

// PaysAt is when so much can be reserved if nothing else changes; false where that takes the end of a job.
func (a *Account) PaysAt(amount int64) (time.Time, bool) {
	at := a.Now
	if a.Closed() {
		at = *a.ClosedUntil
	}
	left := a.Available()
	if amount <= left {
		return at, true
	}
	ends := slices.SortedFunc(slices.Values(a.counted), func(x, y counted) int { return x.begin.Compare(y.begin) })
	for _, c := range ends {
		if left += c.amount; amount <= left {
			if over := a.over(c.begin); over.After(at) {
				at = over
			}
			return at, true
		}
	}
	return at, false
}

// Reserve reserves an amount for an attempt that starts now.
func (a *Account) Reserve(amount int64) {
	a.count(a.Now, amount)
	a.running += amount
	a.reserved += amount
	a.sum(a.Now, sums{reserved: amount})
}

// appendSQL adds a row for each account and deletes an older one, as for rates, and the settlements that are in it.
const appendSQL = `
WITH next AS (
  SELECT n.*, place::integer AS nth FROM unnest(@tenants::uuid[], @names::text[], @subjects::text[], @seqs::bigint[], @runnings::bigint[], @sinces::timestamptz[], @days::date[],
                       @reserved::bigint[], @used::bigint[], @overdrawn::bigint[])
    WITH ORDINALITY AS n(tenant_id, budget, subject, seq, running, since, day, reserved, used, overdrawn, place)
), forgotten AS (
  DELETE FROM budget_log AS l USING next WHERE l.tenant_id = next.tenant_id AND l.budget = next.budget AND l.subject = next.subject AND l.seq = next.seq - 2
), settled AS (
  DELETE FROM budget_settlements WHERE id = ANY(@settled::bigint[])
), closed AS (
  INSERT INTO budget_days (tenant_id, budget, day, reserved, used, overdrawn)
  SELECT * FROM unnest(@day_tenants::uuid[], @day_names::text[], @other_days::date[], @day_reserved::bigint[], @day_used::bigint[], @day_overdrawn::bigint[])
), checked AS (
  INSERT INTO key_checks (tenant_id, queue, keys) SELECT tenant_id, '', array_agg(DISTINCT budget || '` + checkSeparator + `' || subject) FROM next GROUP BY tenant_id
)
INSERT INTO budget_log (tenant_id, budget, subject, seq, parts, amounts, running, since, day, reserved, used, overdrawn)
SELECT tenant_id, budget, subject, seq,
       (SELECT COALESCE(array_agg(p.at), '{}') FROM unnest(@parts::timestamptz[], @part_amounts::bigint[], @part_places::integer[]) AS p(at, amount, place) WHERE p.place = next.nth),
       (SELECT COALESCE(array_agg(p.amount), '{}') FROM unnest(@parts::timestamptz[], @part_amounts::bigint[], @part_places::integer[]) AS p(at, amount, place) WHERE p.place = next.nth),
       running, since, day, reserved, used, overdrawn
FROM next`

// Append writes the accounts of which something was reserved or settled, with the batch, and checks of what waits for them. It
// belongs under the claim locks of their tenants.
func (all Accounts) Append(batch *pgx.Batch) (appended bool) {
	var changed []*Account
	for _, a := range all {
		if a.reserved > 0 || len(a.folded) > 0 {
			changed = append(changed, a)
		}
	}
	if len(changed) == 0 {
		return false
	}
	slices.SortFunc(changed, func(x, y *Account) int { return x.Compare(y.Ref) })
	args, place := appendArgs{}, int32(0)
	for _, a := range changed {
		place++
		args.add(a, place)
	}
	batch.Queue(appendSQL, args.named())
	return true
}

type appendArgs struct {
	of, days                struct{ refs []Ref }
	seqs, runnings          []int64
	sinces, day, otherDays  []time.Time
	sums, otherSums         []sums
	parts                   []time.Time
	partAmounts, settledIDs []int64
	partPlaces              []int32
}

func (c *appendArgs) add(a *Account, place int32) {
	c.of.refs = append(c.of.refs, a.Ref)
	c.seqs, c.runnings, c.sinces = append(c.seqs, a.seq+1), append(c.runnings, a.running), append(c.sinces, a.Now.Add(-lateSettlement))
	c.day, c.sums, c.settledIDs = append(c.day, a.day), append(c.sums, a.sums), append(c.settledIDs, a.folded...)
	for day, other := range a.days {
		c.days.refs, c.otherDays, c.otherSums = append(c.days.refs, a.Ref), append(c.otherDays, day), append(c.otherSums, other)
	}
	for _, one := range a.counted {
		c.parts, c.partAmounts, c.partPlaces = append(c.parts, one.begin), append(c.partAmounts, one.amount), append(c.partPlaces, place)
	}
}

func (c *appendArgs) named() store.Args {
	args := store.Args{
		"seqs": c.seqs, "runnings": c.runnings, "sinces": c.sinces, "days": c.day, "settled": store.EmptyIfNil(c.settledIDs),
		"parts": store.EmptyIfNil(c.parts), "part_amounts": store.EmptyIfNil(c.partAmounts), "part_places": store.EmptyIfNil(c.partPlaces),
		"other_days": store.EmptyIfNil(c.otherDays),
	}
	args["tenants"], args["names"], args["subjects"] = columns(c.of.refs)
	args["day_tenants"], args["day_names"], _ = columns(c.days.refs)
	args["reserved"], args["used"], args["overdrawn"] = sumColumns(c.sums)
	args["day_reserved"], args["day_used"], args["day_overdrawn"] = sumColumns(c.otherSums)
	return args
}

func columns(refs []Ref) (tenants []tenant.ID, names, subjects []string) {
	tenants, names, subjects = make([]tenant.ID, len(refs)), make([]string, len(refs)), make([]string, len(refs))
	for i, ref := range refs {
		tenants[i], names[i], subjects[i] = ref.Tenant, ref.Name, ref.Subject
	}
	return tenants, names, subjects
}

func sumColumns(all []sums) (reserved, used, overdrawn []int64) {
	reserved, used, overdrawn = make([]int64, len(all)), make([]int64, len(all)), make([]int64, len(all))
	for i, one := range all {
		reserved[i], used[i], overdrawn[i] = one.reserved, one.used, one.overdrawn
	}
	return reserved, used, overdrawn
}
