package submit

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/amend"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// A submit with a dedupe_key may replace the live job that has it, under the lock of the tenant: so the last one that was accepted is the
// one that runs last.
//
//	live job     waits: it gets what the submit says      runs: it is superseded, and the new job is blocked until it has ended
//
// So one job of a key runs at most, and one waits. A superseded job keeps its key: while it is live, its follower alone can be stored
// with that, also if the follower has ended before it.

// replaces says that the job replaces a live one that has its dedupe_key.
func (n *NewJob) replaces() bool {
	return n.DedupeKey != nil && (n.OnLive == api.OnLiveReplace || n.OnLive == api.OnLiveExtend)
}

// lockReplaced locks those of the holders that are to be replaced, and are live.
func lockReplaced(ctx context.Context, tx store.Querier, submissions []Submission, places []place, holders map[dedupeKey]*read.Row) (map[uuid.UUID]*amend.Row, error) {
	ids := map[tenant.ID][]uuid.UUID{}
	for _, p := range places {
		s := &submissions[p.submission]
		if holder := holders[s.Jobs[p.job].dedupe(s.Tenant)]; holder != nil && s.Jobs[p.job].replaces() {
			ids[s.Tenant] = append(ids[s.Tenant], holder.ID)
		}
	}
	locked := map[uuid.UUID]*amend.Row{}
	for owner, some := range ids {
		live, err := amend.Lock(ctx, tx, owner, "", some)
		if err != nil {
			return nil, err
		}
		maps.Copy(locked, live)
	}
	return locked, nil
}

// meet decides what becomes of a job whose dedupe_key another one has. Where it decides nothing the job is still to be stored: after the
// holder where that is locked, and runs, or in its place if it has ended.
func (n *NewJob) meet(holder *read.Row, locked *amend.Row, result *JobResult) {
	switch {
	case n.OnLive == api.OnLiveFail:
		result.Refused = problem.New(problem.DedupeConflict, "The live job "+holder.ID.String()+" has the same dedupe key. Nothing was stored.")
	case !n.replaces():
		*result = JobResult{Row: holder, Deduplicated: true}
	case locked == nil || locked.State == job.Running:
	case locked.Queue != n.Queue:
		result.Refused = problem.New(problem.DedupeConflict, "The live job "+holder.ID.String()+" has the same dedupe key, and is in the queue "+locked.Queue+". Submit to that queue, or move the job there first. Nothing was changed.")
	case locked.Type != n.Type: // what its attempts have left is of its type
		result.Refused = problem.New(problem.DedupeConflict, "The live job "+holder.ID.String()+" has the same dedupe key, and the type "+locked.Type+". Submit that type, or cancel the job. Nothing was changed.")
	default:
		*result = JobResult{Row: holder, Deduplicated: true, Replaced: true}
	}
}

// follow has a job come after the running one that has its dedupe_key, however that ends.
func (s *Submission) follow(j int, running *amend.Row) {
	if s.follows == nil {
		s.follows = make([]*uuid.UUID, len(s.Jobs))
	}
	if s.links == nil {
		s.links, s.parents = make([]link, len(s.Jobs)), make([]bool, len(s.Jobs))
	}
	s.follows[j] = &running.ID
	if slices.ContainsFunc(s.links[j].edges, func(edge dependency.Edge) bool { return edge.Parent == running.ID }) {
		return // it comes after that one anyway
	}
	edge := s.links[j].wait(s.Tenant, s.Jobs[j].ID, After{Parent: running.ID, OnFailed: job.RunChild}, string(job.Running))
	edge.Redrives = running.Redrives // a follow-up of before does not resolve it
}

const supersedeSQL = `
UPDATE jobs SET superseded = @superseded, has_dependents = has_dependents OR @superseded WHERE id = ANY(@ids::uuid[])`

func supersede(ctx context.Context, db store.Querier, ids []uuid.UUID, superseded bool) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.Query(ctx, supersedeSQL, store.Args{"ids": ids, "superseded": superseded})
	if err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

// followsOf says which jobs come after the ones that have their dedupe_key; nil for none.
func followsOf(submissions []Submission, places []place) []bool {
	var follows []bool
	for i, p := range places {
		if s := &submissions[p.submission]; s.follows != nil && s.follows[p.job] != nil {
			if follows == nil {
				follows = make([]bool, len(places))
			}
			follows[i] = true
		}
	}
	return follows
}

// replaceAll changes the live jobs that are replaced: each once, by the last job that was accepted for it. Where a follower was not
// stored after all, its job is not superseded.
func replaceAll(ctx context.Context, tx pgx.Tx, submissions []Submission, results [][]JobResult) (checks bool, err error) {
	last := map[tenant.ID]map[uuid.UUID]place{}
	followed, alone := map[uuid.UUID]bool{}, []uuid.UUID{}
	for i := range results {
		s := &submissions[i]
		for j := range results[i] {
			r := &results[i][j]
			if r.Replaced {
				if last[s.Tenant] == nil {
					last[s.Tenant] = map[uuid.UUID]place{}
				}
				last[s.Tenant][r.Row.ID] = place{i, j}
			}
			if s.follows == nil || s.follows[j] == nil {
				continue
			}
			if r.Row != nil && !r.Deduplicated {
				followed[*s.follows[j]] = true
			} else {
				alone = append(alone, *s.follows[j])
			}
		}
	}
	for _, id := range alone {
		if !followed[id] {
			if err := supersede(ctx, tx, []uuid.UUID{id}, false); err != nil {
				return false, err
			}
		}
	}
	for owner, places := range last {
		told, err := replaceOf(ctx, tx, owner, submissions, results, places)
		if err != nil {
			return false, err
		}
		checks = checks || told
	}
	return checks, nil
}

const replacedSQL = `
SELECT ` + read.BriefColumns + ` FROM jobs WHERE id = ANY(@ids::uuid[]) AND uuid_send(tenant_id) = uuid_send(@tenant_id::uuid)`

// replaceOf changes the jobs of a tenant.
func replaceOf(ctx context.Context, tx pgx.Tx, owner tenant.ID, submissions []Submission, results [][]JobResult, last map[uuid.UUID]place) (checks bool, err error) {
	ids, edits := make([]uuid.UUID, 0, len(last)), make([]amend.Edit, 0, len(last))
	for id, p := range last {
		ids, edits = append(ids, id), append(edits, submissions[p.submission].Jobs[p.job].replacing(id))
	}
	live, err := amend.Lock(ctx, tx, owner, "", ids) // they are locked since they were found: as they are in the order of all changes
	if err != nil {
		return false, err
	}
	made, err := amend.Prepare(ctx, tx, live, edits)
	if err != nil {
		return false, err
	}
	if err := made.Send(ctx, tx); err != nil {
		return false, err
	}
	amended := map[uuid.UUID]*amend.Amended{}
	for i := range made.Amended {
		amended[made.Amended[i].ID] = &made.Amended[i]
	}
	for _, err := range made.Refused { // changed by a way that takes no lock of the tenant: a patch of its queue
		if err != nil {
			return false, fmt.Errorf("%w: %w", store.ErrOverloaded, err)
		}
	}
	rows, err := tx.Query(ctx, replacedSQL, store.Args{"ids": ids, "tenant_id": owner})
	if err != nil {
		return false, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[read.Row])
	if err != nil {
		return false, err
	}
	now := make(map[uuid.UUID]*read.Row, len(found))
	for _, row := range found {
		now[row.ID] = row
	}
	for i := range results {
		for j := range results[i] {
			r := &results[i][j]
			if !r.Replaced || submissions[i].Tenant != owner {
				continue
			}
			id := r.Row.ID
			r.Row = now[id]
			if last[id] == (place{i, j}) {
				r.amended = amended[id]
			}
		}
	}
	return made.Checks, nil
}

// replacing is what becomes of a live job that the new one replaces.
func (n *NewJob) replacing(id uuid.UUID) amend.Edit {
	tags := n.Tags
	edit := amend.Edit{
		ID: id, Priority: new(int16(n.Priority)), Payload: n.Payload, Metadata: n.Metadata, Tags: &tags, Deadline: n.Deadline, //nolint:gosec // 0 to 9
		MaxAttempts: new(int32(n.MaxAttempts)), To: n.Lane, ToFair: n.Fair, Like: amend.Like{Queue: n.Queue}, //nolint:gosec // 1 to 1000
		All: &amend.All{
			Type: n.Type, Retry: n.Retry, TimeoutMS: n.TimeoutMS, ExpiresAfterMS: n.ExpiresAfterMS, Key: n.Key, KeyWeight: n.KeyWeight, Costs: n.Costs,
			CorrelationID: n.CorrelationID, Traceparent: n.Traceparent,
		},
	}
	if n.OnLive == api.OnLiveExtend {
		if edit.RunAt = n.RunAt; edit.RunAt == nil {
			edit.Delay = &n.Delay
		}
		edit.Latest = n.MaxDelay
	}
	return edit
}
