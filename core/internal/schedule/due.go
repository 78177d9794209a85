package schedule

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const nextScheduleSQL = `
SELECT statement_timestamp() AS now,
       (SELECT due_at FROM schedules WHERE due_at IS NOT NULL AND tenant_id <> ALL(` + store.MovingNowSQL + `) ORDER BY due_at LIMIT 1) - statement_timestamp() AS until`

// ticksWithinSQL reads the tenant's schedules that are due within a time, by their index.
const ticksWithinSQL = `
SELECT EXISTS (
  SELECT FROM schedules
  WHERE uuid_send(tenant_id) = uuid_send(@tenant_id::uuid) AND due_at IS NOT NULL AND due_at <= statement_timestamp() + @within::interval
    AND paused_at IS NULL AND COALESCE(job ->> 'queue', 'default') = @queue)`

// TicksWithin says whether a schedule of a tenant submits a job to a queue within a time.
func (s *Schedules) TicksWithin(ctx context.Context, owner tenant.ID, queue string, within time.Duration) (bool, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	found, err := store.Query(ctx, s.Store, pgx.RowTo[bool], ticksWithinSQL, store.Args{"tenant_id": owner, "queue": queue, "within": within})
	if err != nil {
		return false, fmt.Errorf("schedule: ticks: %w", store.NotApplied(err))
	}
	return found[0], nil
}

// NextDue says when a schedule is due.
type NextDue struct {
	// Now is PostgreSQL's clock.
	Now time.Time
	// Until is the time until a schedule, of any tenant, is due; nil where none ever is.
	Until *time.Duration
}

// NextSchedule finds out when the next schedule is due.
func (s *Schedules) NextSchedule(ctx context.Context) (NextDue, error) {
	next, err := store.Query(ctx, s.Store, pgx.RowToStructByName[NextDue], nextScheduleSQL, store.Args{})
	if err != nil {
		return NextDue{}, fmt.Errorf("schedule: next: %w", store.NotApplied(err))
	}
	return next[0], nil
}

// Candidate is a due schedule, as it was without a lock.
type Candidate struct {
	TenantID tenant.ID
	Name     string
	Revision int64
	// Job is the job of each tick.
	Job api.ScheduleJob
	// Template is the submission of a tick's job, but for its id and deadline. The caller fills it
	// in: lanes must be committed before the step, and caps be known.
	Template submit.Submission
}

const (
	// dueWindow is how many due schedules are read, oldest first. Where there are more, one tenant
	// may have filled the window, and dueFirsts of each tenant are read too, dueFirstsMost of all.
	dueWindow     = 1000
	dueFirsts     = 25
	dueFirstsMost = 5000
	// dueJobs is how many jobs a statement reads: longer ones keep a processor from claims.
	dueJobs = 100
	// dueBytes bounds the jobs of the candidates together.
	dueBytes = 8 << 20

	oldestDueSQL = `
SELECT tenant_id, name, revision, size, due_at FROM schedules
WHERE due_at <= statement_timestamp() AND tenant_id <> ALL(` + store.MovingNowSQL + `)
ORDER BY due_at
LIMIT @window`

	// firstsDueSQL goes from tenant to tenant by the index. The comparisons of rows keep it there: the
	// index of all that is due has the order of one tenant's too.
	firstsDueSQL = `
WITH RECURSIVE owners AS (
  (SELECT uuid_send(tenant_id) AS owner FROM schedules WHERE due_at IS NOT NULL ORDER BY uuid_send(tenant_id) LIMIT 1)
  UNION ALL
  SELECT (SELECT uuid_send(s.tenant_id) FROM schedules s WHERE s.due_at IS NOT NULL AND uuid_send(s.tenant_id) > owners.owner
          ORDER BY uuid_send(s.tenant_id) LIMIT 1)
  FROM owners WHERE owners.owner IS NOT NULL
)
SELECT theirs.* FROM owners CROSS JOIN LATERAL (
  SELECT tenant_id, name, revision, size, due_at FROM schedules s
  WHERE (uuid_send(s.tenant_id), s.due_at) >= (owners.owner, '-infinity') AND (uuid_send(s.tenant_id), s.due_at) <= (owners.owner, statement_timestamp())
    AND s.due_at IS NOT NULL AND s.tenant_id <> ALL(` + store.MovingNowSQL + `)
  ORDER BY uuid_send(s.tenant_id), s.due_at
  LIMIT @firsts
) AS theirs
WHERE owners.owner IS NOT NULL
LIMIT @most`

	// dueJobsSQL reads the jobs of those that are as they were.
	dueJobsSQL = `
SELECT chosen.place::integer - 1 AS place, template.job
FROM unnest(@tenants::uuid[], @names::text[], @revisions::bigint[]) WITH ORDINALITY AS chosen(tenant_id, name, revision, place)
CROSS JOIN LATERAL (
  SELECT job FROM schedules s
  WHERE s.tenant_id = chosen.tenant_id AND s.name = chosen.name AND s.revision = chosen.revision
  LIMIT 1
) AS template
ORDER BY place`
)

// dueSchedule is a due schedule without its job. Size is that of the job, in bytes.
type dueSchedule struct {
	TenantID tenant.ID
	Name     string
	Revision int64
	Size     int32
	DueAt    time.Time
}

// DueSchedules lists schedules, of any tenants, that are due: at most most, tenants in turn.
func (s *Schedules) DueSchedules(ctx context.Context, most int) ([]Candidate, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	candidates, err := s.due(ctx, most)
	if err != nil {
		return nil, fmt.Errorf("schedule: due: %w", store.NotApplied(err))
	}
	return candidates, nil
}

func (s *Schedules) due(ctx context.Context, most int) ([]Candidate, error) {
	read, err := store.Query(ctx, s.Store, pgx.RowToStructByPos[dueSchedule], oldestDueSQL, store.Args{"window": dueWindow})
	if err != nil || len(read) == 0 {
		return nil, err
	}
	if len(read) == dueWindow {
		firsts, err := store.Query(ctx, s.Store, pgx.RowToStructByPos[dueSchedule], firstsDueSQL, store.Args{"firsts": dueFirsts, "most": dueFirstsMost})
		if err != nil {
			return nil, err
		}
		read = append(read, firsts...)
	}
	var ready []Candidate
	for some := range slices.Chunk(inTurn(read, most), dueJobs) {
		if err := s.readJobs(ctx, some, &ready); err != nil {
			return nil, err
		}
	}
	return ready, nil
}

// readJobs adds those of some that are as they were to ready, with their jobs.
func (s *Schedules) readJobs(ctx context.Context, some []Candidate, ready *[]Candidate) error {
	_, err := store.Query(ctx, s.Store, func(row pgx.CollectableRow) (struct{}, error) {
		var place int
		var job []byte
		if err := row.Scan(&place, &job); err != nil {
			return struct{}{}, err
		}
		one := some[place]
		one.Job = (&scheduleRow{Job: job}).job()
		*ready = append(*ready, one)
		return struct{}{}, nil
	}, dueJobsSQL, candidateArgs(some))
	return err
}

// inTurn chooses at most most schedules: first each tenant's longest overdue, then each one's next,
// up to dueBytes. The same one may be there twice.
func inTurn(due []dueSchedule, most int) []Candidate {
	slices.SortFunc(due, func(a, b dueSchedule) int {
		return cmp.Or(bytes.Compare(a.TenantID[:], b.TenantID[:]), a.DueAt.Compare(b.DueAt), strings.Compare(a.Name, b.Name))
	})
	due = slices.CompactFunc(due, func(a, b dueSchedule) bool { return a.TenantID == b.TenantID && a.Name == b.Name })
	type turn struct{ round, place int }
	turns := make([]turn, len(due))
	for i := range due {
		turns[i].place = i
		if i > 0 && due[i].TenantID == due[i-1].TenantID {
			turns[i].round = turns[i-1].round + 1
		}
	}
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(a.round-b.round, due[a.place].DueAt.Compare(due[b.place].DueAt), a.place-b.place)
	})
	var chosen []Candidate
	size := 0
	for _, next := range turns {
		one := due[next.place]
		if len(chosen) == most || size >= dueBytes {
			break
		}
		size += int(one.Size)
		chosen = append(chosen, Candidate{TenantID: one.TenantID, Name: one.Name, Revision: one.Revision})
	}
	return chosen
}
