package read

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// lastOutputSQL is the place of the last chunk that the job has said; null for none.
func lastOutputSQL(id string) string {
	return `(SELECT epoch || '.' || seq FROM job_output WHERE job_id = ` + id + ` AND at >= earliest_end(` + id + `) ORDER BY epoch DESC, seq DESC LIMIT 1)`
}

// afterSQL reads the workflows of jobs, what they wait for, whether they have said something, and the edges to their parents, with the
// state of those that are still kept.
var afterSQL = `
SELECT asked.id AS child_id, own.workflow_id, own.ref AS own_ref, parent_id, on_failed, resolved_at IS NULL AS waits,
       parent.state, parent.user_id, named.ref, job_waits.names, job_waits.woken,
       EXISTS (SELECT FROM job_signals WHERE job_id = asked.id OFFSET 0) AS signalled,
       CASE WHEN @output::boolean THEN ` + lastOutputSQL("asked.id") + ` END AS said
FROM unnest(@ids::uuid[]) AS asked(id)
LEFT JOIN workflow_jobs AS own ON own.job_id = asked.id
LEFT JOIN job_waits ON job_waits.job_id = asked.id
LEFT JOIN dependencies ON child_id = asked.id
LEFT JOIN LATERAL (
  SELECT state, user_id FROM jobs WHERE id = parent_id
  UNION ALL
  SELECT state, user_id FROM finished_jobs WHERE id = parent_id AND finished_at >= earliest_end(parent_id)
  UNION ALL
  SELECT 'dead_letter', user_id FROM dead_letters WHERE id = parent_id
) AS parent ON true
LEFT JOIN workflow_jobs AS named ON named.job_id = parent_id
ORDER BY asked.id, parent_id`

type edgeRow struct {
	ChildID    uuid.UUID
	WorkflowID *uuid.UUID
	OwnRef     *string
	// ParentID is nil for a job of a workflow that comes after none.
	ParentID *uuid.UUID
	OnFailed *string
	Waits    bool
	State    *string
	UserID   *string
	Ref      *string
	// Names and Woken are of the last wait; nil for none. Signalled: there are signals.
	Names     []string
	Woken     *bool
	Signalled bool
	// Said is the place of the last chunk of output; nil for none, and where it was not asked for.
	Said *string
}

// parents are what a job shows of its workflow, and of the jobs that it comes after.
type parents struct {
	workflow *api.JobWorkflow
	after    []api.JobDependency
	// waits counts those that it waits for, also of other users.
	waits int
	// awaited are the signals of the last wait, woken says that they ended it; nil for no wait. signalled: there are some.
	awaited   []string
	woken     *bool
	signalled bool
	said      *string
}

func parentsByChild(rows []edgeRow, user string) map[uuid.UUID]*parents {
	found := map[uuid.UUID]*parents{}
	for i := range rows {
		row := &rows[i]
		one := found[row.ChildID]
		if one == nil {
			one = &parents{awaited: row.Names, woken: row.Woken, signalled: row.Signalled, said: row.Said}
			found[row.ChildID] = one
		}
		if row.WorkflowID != nil {
			one.workflow = &api.JobWorkflow{ID: row.WorkflowID.String(), Ref: *row.OwnRef}
		}
		if row.ParentID == nil {
			continue
		}
		if row.Waits {
			one.waits++
		}
		if row.State != nil && (user == "" || row.UserID != nil && *row.UserID == user) {
			one.after = append(one.after, api.JobDependency{JobID: row.ParentID.String(), Ref: row.Ref, State: *row.State, OnFailed: *row.OnFailed})
		}
	}
	return found
}

// show adds the parents to a job, and what it waits for.
func (p *parents) show(summary *api.JobSummary) {
	if p == nil {
		return
	}
	summary.Workflow, summary.Output = p.workflow, p.said
	if len(p.after) > 0 {
		summary.After = p.after
	}
	switch job.State(summary.State) {
	case job.Blocked:
		summary.BlockedBy = &p.waits
	case job.Waiting:
		if summary.WaitUntil = summary.RunAt; len(summary.WaitingFor) == 0 { // an event knows what it was for
			summary.WaitingFor = p.awaited
		}
	default:
	}
}

// AddParents adds the workflow and the parents of linked jobs to what is shown of them, by id; parents
// of one user only where user is not empty. The caller may see the jobs.
func (s *Reader) AddParents(ctx context.Context, user string, linked map[uuid.UUID]*api.JobSummary) error {
	if len(linked) == 0 {
		return nil
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[edgeRow], afterSQL, afterArgs(linked))
	if err != nil {
		return fmt.Errorf("jobs: parents: %w", store.NotApplied(err))
	}
	addParents(rows, user, linked)
	return nil
}

// AddParentsIn is AddParents in a transaction.
func AddParentsIn(ctx context.Context, tx pgx.Tx, user string, linked map[uuid.UUID]*api.JobSummary) error {
	if len(linked) == 0 {
		return nil
	}
	found, err := tx.Query(ctx, afterSQL, afterArgs(linked))
	if err != nil {
		return err
	}
	rows, err := pgx.CollectRows(found, pgx.RowToStructByName[edgeRow])
	addParents(rows, user, linked)
	return err
}

// Links are what a claimed job gets of its links with other jobs, and of what it was told from outside.
type Links struct {
	Workflow *api.JobWorkflow
	Parents  []api.ClaimedParent
	Signals  []api.ClaimedSignal
	// WokenBy is what ended its last wait; nil for none.
	WokenBy *string
}

// signalsOfSQL reads signals of jobs, as claims give them.
const signalsOfSQL = `
SELECT job_id, name, data, at FROM job_signals WHERE job_id = ANY(@ids::uuid[]) ORDER BY job_id, name`

// Links gives those of linked jobs, which are claimed.
func (s *Reader) Links(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]*Links, error) {
	found := map[uuid.UUID]*Links{}
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[edgeRow], afterSQL, store.Args{"ids": ids, "output": false})
	if err != nil {
		return nil, fmt.Errorf("jobs: links: %w", store.NotApplied(err))
	}
	var signalled []uuid.UUID
	for id, one := range parentsByChild(rows, "") {
		links := &Links{Workflow: one.workflow}
		for _, parent := range one.after {
			links.Parents = append(links.Parents, api.ClaimedParent{Ref: parent.Ref, JobID: parent.JobID, State: parent.State})
		}
		if one.woken != nil {
			by := api.WokenByTimeout
			if *one.woken {
				by = api.WokenBySignal
			}
			links.WokenBy = &by
		}
		if one.signalled {
			signalled = append(signalled, id)
		}
		found[id] = links
	}
	if len(signalled) == 0 {
		return found, nil
	}
	signals, err := store.Query(ctx, s.Store, pgx.RowToStructByPos[signalRow], signalsOfSQL, store.Args{"ids": signalled})
	if err != nil {
		return nil, fmt.Errorf("jobs: signals: %w", store.NotApplied(err))
	}
	for _, one := range signals {
		made := api.ClaimedSignal{Name: one.Name, Data: one.Data, At: api.At(one.At)}
		if one.Data == nil {
			made.Data = json.RawMessage("null")
		}
		found[one.Job].Signals = append(found[one.Job].Signals, made)
	}
	return found, nil
}

type signalRow struct {
	Job  uuid.UUID
	Name string
	Data []byte
	At   time.Time
}

func afterArgs(linked map[uuid.UUID]*api.JobSummary) store.Args {
	ids := make([]uuid.UUID, 0, len(linked))
	for id := range linked {
		ids = append(ids, id)
	}
	return store.Args{"ids": ids, "output": true}
}

func addParents(rows []edgeRow, user string, linked map[uuid.UUID]*api.JobSummary) {
	by := parentsByChild(rows, user)
	for id, summary := range linked {
		by[id].show(summary)
	}
}

// parentResultsSQL reads a page of a job's parents with their results, by id. It goes from parent to
// parent, so that no result is read beyond the one that fills the page: a window over all of them
// would read each to know its size.
const parentResultsSQL = `
WITH RECURSIVE page AS (
  SELECT @after::uuid AS parent_id, NULL::text COLLATE "C" AS type, NULL::text AS state, NULL::json AS result, 0 AS place, 0::bigint AS bytes
  UNION ALL
  SELECT next.parent_id, next.type, next.state, next.result, place + 1, bytes + COALESCE(octet_length(next.result::text), 0)
  FROM page CROSS JOIN LATERAL (
    SELECT parent_id, parent.type, parent.state, parent.result
    FROM dependencies CROSS JOIN LATERAL (
      SELECT type, state, user_id, NULL::json AS result FROM jobs WHERE id = parent_id
      UNION ALL
      SELECT type, state, user_id, result FROM finished_jobs WHERE id = parent_id AND finished_at >= earliest_end(parent_id)
      UNION ALL
      SELECT type, 'dead_letter', user_id, NULL FROM dead_letters WHERE id = parent_id
    ) AS parent
    WHERE child_id = @id AND parent_id > page.parent_id AND (@user::text = '' OR parent.user_id = @user)
    ORDER BY parent_id
    LIMIT 1
  ) AS next
  WHERE place < @size AND bytes < @bytes
)
SELECT parent_id, named.ref, type, state, result,
       -- an edge after the last one of a full page; its parent may be gone, and the next page empty
       (place = @size OR bytes >= @bytes)
         AND EXISTS (SELECT FROM dependencies AS rest WHERE rest.child_id = @id AND rest.parent_id > page.parent_id) AS more
FROM page LEFT JOIN workflow_jobs AS named ON named.job_id = parent_id
WHERE place > 0
ORDER BY place`

type parentRow struct {
	ParentID uuid.UUID
	Ref      *string
	Type     string
	State    string
	Result   []byte
	More     bool
}

// ParentsPage is a part of a job's parents: at most Size of those after one, by id, and none after
// that whose result fills api.MaxPageBytes.
type ParentsPage struct {
	After uuid.UUID
	Size  int
}

// holdsSQL says whether a worker of the owner holds the job.
const holdsSQL = `
SELECT EXISTS (SELECT FROM jobs WHERE id = @id AND state = 'running' AND worker_owner = @owner)`

// Parents gives a page of the jobs that one of a tenant's jobs came after and that are still kept, with
// their results; of one user only where user is not empty. The page's token is the id of its last job.
func (s *Reader) Parents(ctx context.Context, owner tenant.ID, user string, id uuid.UUID, page ParentsPage) (api.Page[api.JobParent], error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	if _, _, err := s.Find(ctx, owner, user, id); err != nil {
		return api.Page[api.JobParent]{}, err
	}
	return s.parentResults(ctx, user, id, page)
}

// ParentsForHolder is Parents for a worker: of the tenant, or of the platform. ErrNotFound where none of
// the owner's workers holds the job.
func (s *Reader) ParentsForHolder(ctx context.Context, owner tenant.ID, id uuid.UUID, page ParentsPage) (api.Page[api.JobParent], error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	holds, err := store.Query(ctx, s.Store, pgx.RowTo[bool], holdsSQL, store.Args{"id": id, "owner": owner})
	if err != nil {
		return api.Page[api.JobParent]{}, fmt.Errorf("jobs: holder: %w", store.NotApplied(err))
	}
	if !holds[0] {
		return api.Page[api.JobParent]{}, store.ErrNotFound
	}
	return s.parentResults(ctx, "", id, page)
}

func (s *Reader) parentResults(ctx context.Context, user string, id uuid.UUID, page ParentsPage) (api.Page[api.JobParent], error) {
	shown := api.Page[api.JobParent]{Items: []api.JobParent{}}
	rows, err := store.Query(ctx, s.Store, pgx.RowToAddrOfStructByName[parentRow], parentResultsSQL, store.Args{
		"id": id, "user": user, "after": page.After, "size": page.Size, "bytes": api.MaxPageBytes,
	})
	if err != nil {
		return shown, fmt.Errorf("jobs: parents: %w", store.NotApplied(err))
	}
	for _, row := range rows {
		shown.Items = append(shown.Items, api.JobParent{Ref: row.Ref, JobID: row.ParentID.String(), Type: row.Type, State: row.State, Result: row.Result})
		if row.More {
			next := row.ParentID.String()
			shown.NextPageToken = &next
		}
	}
	return shown, nil
}
