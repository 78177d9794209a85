package gate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/budget"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// ahead is how many jobs may be past a budget, and have not started: their amounts are added up at each pass. After aheadFor
	// they no longer count: their queue is paused, or has no free worker, and others do not wait for that.
	ahead    = 500
	aheadFor = 2 * time.Second
	// lineLookback is how far before the first place of a line that was seen its head is looked for: another core may have made it
	// begin again with the time.
	lineLookback = time.Minute
	// furthest is how far ahead of the time a place in a line may be.
	furthest = lineLookback / 2
)

// headsSQL gives the first jobs that wait for budgets, and rows whose jobs do not wait. Each rank of a line is a probe of its own,
// from where it began when it was last read: what has left a line is not visited again under an old snapshot.
const headsSQL = `
SELECT (asked.place - 1)::integer AS place, head.job_id, head.turn, (9 - head.rank)::smallint AS rank_priority, lanes.fair, j.queue, j.id, j.lane_id, j.priority, j.key, j.key_weight, j.user_id, j.costs
FROM unnest(@names::text[], @subjects::text[]) WITH ORDINALITY AS asked(budget, subject, place)
CROSS JOIN LATERAL (
  SELECT l.job_id, l.turn, l.rank FROM generate_series(0, 9) AS r(rank) CROSS JOIN LATERAL (
    SELECT job_id, turn, rank FROM budget_line
    WHERE tenant_id = @tenant_id AND budget = asked.budget AND subject = asked.subject AND passed_at IS NULL AND rank = r.rank
      AND turn >= (@hints::timestamptz[])[(asked.place - 1) * 10 + r.rank + 1]
    ORDER BY turn, job_id LIMIT @most) AS l
  LIMIT @most
) AS head
LEFT JOIN jobs AS j ON j.id = head.job_id AND j.state = 'queued' AND j.ready_at IS NULL AND j.gate >= 8
LEFT JOIN lanes ON lanes.id = j.lane_id
ORDER BY asked.place, head.rank, head.turn, head.job_id`

// aheadSQL adds up what the jobs may use that have just passed budgets and have not started, deletes the rows of others, and says
// whether any job waits.
const aheadSQL = `
WITH asked AS (
  SELECT *, (place - 1)::integer AS nth FROM unnest(@names::text[], @subjects::text[], @passed_hints::timestamptz[]) WITH ORDINALITY AS a(budget, subject, hint, place)
), passed AS MATERIALIZED (
  SELECT asked.nth, l.job_id, l.budget, l.cost, l.passed_at,
    l.passed_at > statement_timestamp() - @ahead_for::interval
    AND EXISTS (SELECT FROM jobs AS j WHERE j.id = l.job_id AND j.state = 'queued' AND j.ready_at IS NOT NULL) AS ready
  FROM asked JOIN budget_line AS l ON l.tenant_id = @tenant_id AND l.budget = asked.budget AND l.subject = asked.subject
    AND l.passed_at IS NOT NULL AND l.passed_at >= asked.hint
), gone AS (
  DELETE FROM budget_line AS l USING passed WHERE l.job_id = passed.job_id AND l.budget = passed.budget AND NOT passed.ready
)
SELECT asked.nth AS place, count(passed.job_id) AS jobs, COALESCE(sum(passed.cost), 0)::bigint AS amount, min(passed.passed_at) AS first,
  EXISTS (SELECT FROM generate_series(0, 9) AS r(rank) CROSS JOIN LATERAL (
            SELECT FROM budget_line AS l WHERE l.tenant_id = @tenant_id AND l.budget = asked.budget AND l.subject = asked.subject AND l.passed_at IS NULL
              AND l.rank = r.rank AND l.turn >= (@hints::timestamptz[])[asked.nth * 10 + r.rank + 1] LIMIT 1) AS l) AS waiting
FROM asked LEFT JOIN passed ON passed.nth = asked.nth AND passed.ready
GROUP BY asked.nth, asked.budget, asked.subject`

// placesSQL gives, for those that join a line, where it begins and the last place of their key.
const placesSQL = `
SELECT COALESCE((SELECT turn FROM budget_line WHERE tenant_id = @tenant_id AND budget = f.budget AND subject = f.subject AND passed_at IS NULL
                 AND rank = f.rank AND turn >= f.hint ORDER BY turn, job_id LIMIT 1), statement_timestamp()) AS head,
  (SELECT turn FROM budget_line WHERE tenant_id = @tenant_id AND budget = f.budget AND subject = f.subject AND passed_at IS NULL
   AND rank = f.rank AND key = f.key ORDER BY turn DESC LIMIT 1) AS last
FROM unnest(@names::text[], @subjects::text[], @ranks::smallint[], @keys::text[], @hints::timestamptz[]) WITH ORDINALITY AS f(budget, subject, rank, key, hint, place)
ORDER BY f.place`

// A job has a row for each budget that it is past, or one for the budget that it waits for.
const lineSQL = `
INSERT INTO budget_line (tenant_id, budget, subject, job_id, rank, key, turn, cost, passed_at)
SELECT @tenant_id, l.budget, l.subject, l.job_id, l.rank, l.key, COALESCE(l.turn, statement_timestamp()), l.cost, CASE WHEN l.turn IS NULL THEN statement_timestamp() END
FROM unnest(@names::text[], @subjects::text[], @jobs::uuid[], @ranks::smallint[], @keys::text[], @turns::timestamptz[], @costs::bigint[])
  AS l(budget, subject, job_id, rank, key, turn, cost)
ON CONFLICT (job_id, budget) DO UPDATE
SET subject = EXCLUDED.subject, rank = EXCLUDED.rank, key = EXCLUDED.key, turn = EXCLUDED.turn, cost = EXCLUDED.cost, passed_at = EXCLUDED.passed_at`

const leaveLineSQL = `
DELETE FROM budget_line AS l USING unnest(@jobs::uuid[], @names::text[]) AS left_line(job_id, budget)
WHERE l.job_id = left_line.job_id AND l.budget = left_line.budget`

const waitSQL = `
UPDATE jobs SET gate = gate | 8 WHERE ` + asItWas

// reviewSQL appends checks of budgets, at once or for later. An earlier one is enough.
const reviewSQL = `
INSERT INTO key_checks (tenant_id, queue, keys, due_at)
SELECT @tenant_id::uuid, '', array_agg(DISTINCT r.key), COALESCE(r.due_at, '-infinity') FROM unnest(@keys::text[], @due::timestamptz[]) AS r(key, due_at)
WHERE r.due_at IS NULL OR NOT EXISTS (
  SELECT FROM key_checks AS c
  WHERE c.tenant_id = @tenant_id AND c.queue = '' AND r.key = ANY(c.keys) AND c.due_at > statement_timestamp() AND c.due_at <= r.due_at)
GROUP BY r.due_at`

type lineRows struct {
	names, subjects, keys []string
	jobs                  []uuid.UUID
	ranks                 []int16
	turns                 []*time.Time
	costs                 []int64
}

func (r *lineRows) add(ref budget.Ref, job *next, turn *time.Time, cost int64) {
	r.names, r.subjects, r.keys, r.jobs = append(r.names, ref.Name), append(r.subjects, ref.Subject), append(r.keys, job.Key), append(r.jobs, job.ID)
	r.ranks, r.turns, r.costs = append(r.ranks, api.MaxPriority-job.Priority), append(r.turns, turn), append(r.costs, cost)
}

// head is a job at the head of a line; its job is nil where it does not wait.
type head struct {
	id  uuid.UUID
	job *next
}

// heads gives the first jobs of lines.
func (p *payer) heads(ctx context.Context, asked []budget.Ref) ([][]head, error) {
	made := make([][]head, len(asked))
	if len(asked) == 0 {
		return made, nil
	}
	names, subjects := refColumns(asked)
	hints := p.gate.rankHints(asked)
	rows, err := p.tx.Query(ctx, headsSQL, store.Args{"tenant_id": p.owner, "names": names, "subjects": subjects, "hints": hints, "most": passedPerKey})
	if err != nil {
		return nil, err
	}
	type row struct {
		Place        int32
		JobID        uuid.UUID
		Turn         time.Time
		RankPriority int16
		Fair         *bool
		Queue        *string
		ID           *uuid.UUID
		LaneID       *lanes.ID
		Priority     *int16
		Key          *string
		KeyWeight    *float64
		UserID       *string
		Costs        api.Amounts
	}
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[row])
	seen := map[place]bool{}
	for _, r := range found {
		if at := (place{asked[r.Place], api.MaxPriority - r.RankPriority}); !seen[at] {
			seen[at] = true
			p.gate.places.note(at, r.Turn)
		}
		one := head{id: r.JobID}
		if r.ID != nil && r.Fair != nil {
			one.job = &next{
				Fair: *r.Fair, Queue: *r.Queue, ID: *r.ID, LaneID: *r.LaneID, Priority: *r.Priority, Key: *r.Key, KeyWeight: r.KeyWeight, UserID: r.UserID, Costs: r.Costs,
			}
		}
		made[r.Place] = append(made[r.Place], one)
	}
	return made, err
}

func refColumns(refs []budget.Ref) (names, subjects []string) {
	names, subjects = make([]string, len(refs)), make([]string, len(refs))
	for i, ref := range refs {
		names[i], subjects[i] = ref.Name, ref.Subject
	}
	return names, subjects
}

// join gives those that come to a line their places: keys take turns by what their jobs cost.
func (p *payer) join(ctx context.Context) error {
	if len(p.joining) == 0 {
		return nil
	}
	type flow struct {
		place
		key string
	}
	type ends struct {
		Head time.Time
		Last *time.Time
	}
	places, flows := map[flow]int{}, []flow{}
	for _, one := range p.joining {
		of := flow{place{one.ref, api.MaxPriority - one.job.Priority}, one.job.Key}
		if _, known := places[of]; !known {
			places[of] = len(flows)
			flows = append(flows, of)
		}
	}
	names, subjects, ranks, keys, hints := make([]string, len(flows)), make([]string, len(flows)), make([]int16, len(flows)), make([]string, len(flows)), make([]time.Time, len(flows))
	for i, of := range flows {
		names[i], subjects[i], ranks[i], keys[i], hints[i] = of.ref.Name, of.ref.Subject, of.rank, of.key, p.gate.places.of(of.place)
	}
	rows, err := p.tx.Query(ctx, placesSQL, store.Args{"tenant_id": p.owner, "names": names, "subjects": subjects, "ranks": ranks, "keys": keys, "hints": hints})
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ends])
	if err != nil {
		return err
	}
	for _, one := range p.joining {
		end := &found[places[flow{place{one.ref, api.MaxPriority - one.job.Priority}, one.job.Key}]]
		begin := end.Head
		if end.Last != nil && end.Last.After(begin) {
			begin = *end.Last
		}
		turn := begin.Add(p.stride(one))
		if account := p.lines[one.ref].account; account != nil && turn.After(account.Now.Add(furthest)) {
			turn = account.Now.Add(furthest)
		}
		end.Last = &turn
		p.rows.add(one.ref, one.job, &turn, one.amount)
	}
	return nil
}

// stride is as a step of package gate for a thousandth of what the budget holds.
func (p *payer) stride(one joiner) time.Duration {
	micros := stepMicros / cmp.Or(store.OrElse(one.job.KeyWeight, 1), 1)
	if account := p.lines[one.ref].account; account != nil {
		micros *= min(max(1000*float64(one.amount)/float64(account.Holds()), 0.01), 1000)
	}
	return max(time.Duration(micros*float64(time.Microsecond)).Truncate(time.Microsecond), time.Microsecond)
}

// passedRank stands for those that are past a budget.
const passedRank = -1

// place is a rank of a line.
type place struct {
	ref  budget.Ref
	rank int16
}

// rankHints are the hints of each rank of lines.
func (g *Gate) rankHints(refs []budget.Ref) []time.Time {
	hints := make([]time.Time, 0, (api.MaxPriority+1)*len(refs))
	for _, ref := range refs {
		for rank := range int16(api.MaxPriority + 1) {
			hints = append(hints, g.places.of(place{ref, rank}))
		}
	}
	return hints
}

// sweepLinesSQL appends checks of budgets for which jobs have waited for a while, and which have none.
const sweepLinesSQL = `
INSERT INTO key_checks (tenant_id, queue, keys)
SELECT l.tenant_id, '', ARRAY[l.key] FROM (
  SELECT DISTINCT tenant_id, budget || '/' || subject AS key FROM budget_line
  WHERE passed_at IS NULL AND tenant_id <> ALL(` + store.MovingSQL + `)) AS l
WHERE NOT EXISTS (SELECT FROM key_checks AS c WHERE c.tenant_id = l.tenant_id AND c.queue = '' AND l.key = ANY(c.keys))
LIMIT @most`

// SweepLines has budgets checked for which jobs wait, and which have no check: up to most of them. It is a net, as Sweep is.
func (g *Gate) SweepLines(ctx context.Context, most int) error {
	if err := store.Exec(ctx, g.Store, sweepLinesSQL, store.Args{"most": most}); err != nil {
		return fmt.Errorf("gate: sweep lines: %w", store.NotApplied(err))
	}
	return nil
}
