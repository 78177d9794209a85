package gate

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/budget"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// line is what a pass knows of a budget's account.
type line struct {
	// account is nil where there is no such budget: it holds nobody up.
	account *budget.Account
	// amount is what jobs may use that are past it and have not started.
	amount, jobs int64
	// waiting says that jobs wait, or will.
	waiting bool
}

func (l *line) pays(amount int64) bool {
	return l.account == nil || l.jobs < ahead && l.account.Pays(l.amount+amount)
}

// payer lets jobs pass their budgets.
type payer struct {
	*step

	definitions budget.Definitions
	lines       map[budget.Ref]*line
	passing     []next
	// rows are for budget_line, left those that leave a line, waiting the jobs that come to one. reviews are checks.
	rows lineRows
	left struct {
		jobs  []uuid.UUID
		names []string
	}
	waiting []next
	reviews struct {
		keys []string
		due  []*time.Time
	}
	joining []joiner
}

// joiner is a job that comes to a line.
type joiner struct {
	ref    budget.Ref
	job    *next
	amount int64
}

// pay lets those of the jobs pass whose budgets can pay them, and the first ones that wait for the asked budgets. The others
// come to a line.
func (s *step) pay(ctx context.Context, batch *pgx.Batch, found []next, asked []budget.Ref) ([]next, error) {
	if len(asked) == 0 && !slices.ContainsFunc(found, func(n next) bool { return n.Costs != nil }) {
		return found, nil
	}
	p := &payer{step: s, definitions: budget.Definitions{}, lines: map[budget.Ref]*line{}}
	rows, err := s.tx.Query(ctx, budget.DefinitionsSQL, store.Args{"tenants": []tenant.ID{s.owner}})
	if err == nil {
		err = p.definitions.Scan(rows)
	}
	if err != nil {
		return nil, err
	}
	heads, err := p.heads(ctx, asked)
	if err != nil {
		return nil, err
	}
	if err := p.read(ctx, found, heads, asked); err != nil {
		return nil, err
	}
	for i, ref := range asked {
		p.work(ref, heads[i])
	}
	for i := range found {
		p.meet(&found[i])
	}
	if err := p.join(ctx); err != nil {
		return nil, err
	}
	p.write(batch)
	return p.passing, nil
}

// read reads all lines that the jobs may use.
func (p *payer) read(ctx context.Context, found []next, heads [][]head, asked []budget.Ref) error {
	add := func(ref budget.Ref) {
		if p.lines[ref] == nil {
			p.lines[ref] = &line{}
		}
	}
	of := func(job *next) {
		for ref := range p.amounts(job) {
			add(ref)
		}
	}
	for i := range found {
		of(&found[i])
	}
	for i, ref := range asked {
		add(ref)
		for _, one := range heads[i] {
			if one.job != nil {
				of(one.job)
			}
		}
	}
	refs := make([]budget.Ref, 0, len(p.lines))
	for ref := range p.lines {
		refs = append(refs, ref)
	}
	accounts, err := budget.Load(ctx, p.tx, refs)
	if err != nil {
		return err
	}
	names, subjects := refColumns(refs)
	passed := make([]time.Time, len(refs))
	for i, ref := range refs {
		passed[i] = p.gate.places.of(place{ref, passedRank})
	}
	rows, err := p.tx.Query(ctx, aheadSQL, store.Args{
		"tenant_id": p.owner, "names": names, "subjects": subjects, "passed_hints": passed, "hints": p.gate.rankHints(refs), "ahead_for": aheadFor,
	})
	if err != nil {
		return err
	}
	var nth int32
	var jobs, amount int64
	var first *time.Time
	var waiting bool
	_, err = pgx.ForEachRow(rows, []any{&nth, &jobs, &amount, &first, &waiting}, func() error {
		ref := refs[nth]
		*p.lines[ref] = line{account: accounts[ref], jobs: jobs, amount: amount, waiting: waiting}
		if first != nil {
			p.gate.places.note(place{ref, passedRank}, *first)
		}
		return nil
	})
	return err
}

// amounts are what a job reserves of the accounts that there are.
func (p *payer) amounts(job *next) map[budget.Ref]int64 {
	return p.definitions.Refs(p.owner, job.Costs, job.UserID, &job.Key)
}

// short gives the account that cannot pay a job, the preferred one before others; false if all can.
func (p *payer) short(amounts map[budget.Ref]int64, preferred budget.Ref) (ref budget.Ref, short bool) {
	if amount, ok := amounts[preferred]; ok && !p.lines[preferred].pays(amount) {
		return preferred, true
	}
	refs := make([]budget.Ref, 0, len(amounts))
	for one := range amounts {
		refs = append(refs, one)
	}
	slices.SortFunc(refs, budget.Ref.Compare)
	for _, one := range refs {
		if !p.lines[one].pays(amounts[one]) {
			return one, true
		}
	}
	return ref, false
}

// work lets the first ones of a line pass, until it cannot pay the next one. One that another budget cannot pay goes to that line.
func (p *payer) work(ref budget.Ref, heads []head) {
	for _, one := range heads {
		if one.job == nil {
			p.left.jobs, p.left.names = append(p.left.jobs, one.id), append(p.left.names, ref.Name)
			continue
		}
		amounts := p.amounts(one.job)
		short, isShort := p.short(amounts, ref)
		switch {
		case !isShort:
			p.pass(one.job, amounts)
			if _, uses := amounts[ref]; !uses { // the budget was deleted
				p.left.jobs, p.left.names = append(p.left.jobs, one.id), append(p.left.names, ref.Name)
			}
		case short == ref:
			p.later(ref, amounts[ref])
			return
		default:
			p.left.jobs, p.left.names = append(p.left.jobs, one.id), append(p.left.names, ref.Name)
			p.wait(short, one.job, amounts[short])
		}
	}
	if len(heads) >= passedPerKey {
		p.review(ref, nil)
	}
}

// meet lets a job pass that has passed the limits of its key, where nothing waits for its budgets.
func (p *payer) meet(job *next) {
	if job.Costs == nil {
		p.passing = append(p.passing, *job)
		return
	}
	amounts := p.amounts(job)
	short, isShort := p.short(amounts, budget.Ref{})
	for ref := range amounts {
		if !isShort && p.lines[ref].waiting {
			short, isShort = ref, true
			p.review(ref, nil) // it may be before those that wait
		}
	}
	if isShort {
		p.wait(short, job, amounts[short])
		return
	}
	p.pass(job, amounts)
}

func (p *payer) pass(job *next, amounts map[budget.Ref]int64) {
	p.passing = append(p.passing, *job)
	for ref, amount := range amounts {
		p.lines[ref].amount += amount
		p.lines[ref].jobs++
		p.rows.add(ref, job, nil, amount)
	}
}

func (p *payer) wait(ref budget.Ref, job *next, amount int64) {
	if p.lines[ref].waiting = true; !p.lines[ref].pays(amount) {
		p.later(ref, amount)
	}
	p.waiting = append(p.waiting, *job)
	p.joining = append(p.joining, joiner{ref, job, amount})
}

// later checks the budget when it can pay the amount, if nothing else changes, and when those that are past it no longer count.
// Until then a claim, an outcome or a setting changes it, which appends a check.
func (p *payer) later(ref budget.Ref, amount int64) {
	one := p.lines[ref]
	if one.account == nil {
		return
	}
	at, will := one.account.PaysAt(one.amount + amount)
	if one.jobs > 0 {
		if left := one.account.Now.Add(aheadFor); one.jobs >= ahead || !will || left.Before(at) {
			at, will = left, true
		}
	}
	if will {
		p.review(ref, &at)
	}
}

func (p *payer) review(ref budget.Ref, due *time.Time) {
	p.reviews.keys, p.reviews.due = append(p.reviews.keys, ref.CheckKey()), append(p.reviews.due, due)
}

// write queues the statements.
func (p *payer) write(batch *pgx.Batch) {
	if len(p.left.jobs) > 0 {
		batch.Queue(leaveLineSQL, store.Args{"jobs": p.left.jobs, "names": p.left.names})
	}
	if r := &p.rows; len(r.jobs) > 0 {
		batch.Queue(lineSQL, store.Args{"tenant_id": p.owner, "names": r.names, "subjects": r.subjects, "jobs": r.jobs, "ranks": r.ranks, "keys": r.keys, "turns": r.turns, "costs": r.costs})
	}
	if len(p.waiting) > 0 {
		batch.Queue(waitSQL, asRead(p.waiting))
	}
	if len(p.reviews.keys) > 0 {
		batch.Queue(reviewSQL, store.Args{"tenant_id": p.owner, "keys": p.reviews.keys, "due": p.reviews.due})
	}
}
