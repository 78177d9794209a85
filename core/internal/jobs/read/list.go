package read

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// ListBefore reads the next chunk of one table, newest id first.
	ListBefore = `tenant_id = @tenant_id AND uuid_send(id) < uuid_send(@before::uuid) ORDER BY uuid_send(id) DESC LIMIT @chunk`
	// QueueMatches finds the jobs of system queues only if one is named.
	QueueMatches = `(@queue::text IS NULL AND ` + tenant.OwnQueueSQL + ` OR queue = @queue)`
	listMatches  = QueueMatches + `
    AND (@type::text IS NULL OR type = @type)
    AND (@user::text IS NULL OR user_id = @user)
    AND (@states::text[] IS NULL OR state = ANY(@states))
    AND (@tag::text IS NULL OR @tag = ANY(tags))
    AND (@dedupe_key::text IS NULL OR dedupe_key = @dedupe_key)
    AND (@key::text IS NULL OR key = @key)
    AND (@metadata::jsonb IS NULL OR metadata::jsonb @> @metadata::jsonb)
    AND (@after::timestamptz IS NULL OR created_at > @after)
    AND (@until::timestamptz IS NULL OR created_at < @until)`
)

// listSQL reads the next chunk of a tenant's jobs, newest id first, from the three tables in one
// statement, so that a job that moves between two is in exactly one. It gives those that match, and
// the last one read, where the next chunk begins.
const listSQL = `
WITH chunk AS MATERIALIZED (
  SELECT * FROM (
    (SELECT ` + BriefColumns + ` FROM jobs WHERE ` + ListBefore + `)
    UNION ALL
    (SELECT ` + briefFinishedColumns + ` FROM finished_jobs WHERE ` + ListBefore + `)
    UNION ALL
    (SELECT ` + BriefDeadColumns + ` FROM dead_letters WHERE ` + ListBefore + `)
  ) AS everywhere
  ORDER BY uuid_send(id) DESC
  LIMIT @chunk
)
SELECT * FROM (
  SELECT *, COALESCE(` + listMatches + `, false) AS hit,
         lead(id) OVER (ORDER BY uuid_send(id) DESC) IS NULL AS last,
         count(*) OVER () AS read
  FROM chunk
) AS judged
WHERE hit OR last
ORDER BY uuid_send(id) DESC`

// Listed is a job of a chunk, or the end of the chunk.
type Listed struct {
	Row
	Hit  bool
	Last bool
	Read int64
}

// List gives a page of a tenant's jobs that match, newest id first, without payloads. It reads at
// most api.MaxPageRows rows, so a page may be short or empty and still have a next one.
func (s *Reader) List(ctx context.Context, owner tenant.ID, filter api.JobFilter, size int, token string) (api.Page[api.JobSummary], error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	var linked []uuid.UUID
	page, err := store.PageOf(ctx, s.Store, "list", listSQL, listArgs(owner, filter), size, token, func(row *Listed) api.JobSummary {
		if row.Linked {
			linked = append(linked, row.ID)
		}
		return row.Summary()
	})
	if err == nil {
		linked, err = s.cutPage(ctx, &page, linked)
	}
	if err != nil {
		return page, err
	}
	return page, s.AddParents(ctx, filter.User, pick(page.Items, linked, func(one *api.JobSummary) *api.JobSummary { return one }))
}

// mostListedParents bounds the parents of all jobs of a page: each is looked up.
const mostListedParents = 20_000

const countParentsSQL = `
SELECT (SELECT count(*) FROM dependencies WHERE child_id = asked.id)
FROM unnest(@ids::uuid[]) WITH ORDINALITY AS asked(id, place)
ORDER BY place`

// cutPage ends a page before the job with which its linked jobs have too many parents, and gives those
// that are left.
func (s *Reader) cutPage(ctx context.Context, page *api.Page[api.JobSummary], linked []uuid.UUID) ([]uuid.UUID, error) {
	if len(linked)*api.MaxWorkflowAfter <= mostListedParents {
		return linked, nil
	}
	counts, err := store.Query(ctx, s.Store, pgx.RowTo[int], countParentsSQL, store.Args{"ids": linked})
	if err != nil {
		return nil, fmt.Errorf("jobs: count parents: %w", store.NotApplied(err))
	}
	total := 0
	for i, n := range counts {
		if total += n; total <= mostListedParents {
			continue
		}
		at := slices.IndexFunc(page.Items, func(one api.JobSummary) bool { return one.ID == linked[i].String() })
		next := page.Items[at-1].ID // one job has fewer
		page.Items, page.NextPageToken = page.Items[:at], &next
		return linked[:i], nil
	}
	return linked, nil
}

// Match is for store.PageOf.
func (l *Listed) Match() (id uuid.UUID, hit bool, read int64) { return l.ID, l.Hit, l.Read }

func listArgs(owner tenant.ID, filter api.JobFilter) store.Args {
	args := store.Args{
		"tenant_id": owner, "queue": store.NullIfEmpty(filter.Queue), "type": store.NullIfEmpty(filter.Type), "user": store.NullIfEmpty(filter.User),
		"states": filter.States, "tag": store.NullIfEmpty(filter.Tag), "dedupe_key": store.NullIfEmpty(filter.DedupeKey), "key": store.NullIfEmpty(filter.Key), "metadata": nil, "after": store.TimeOrNil(filter.CreatedAfter),
		"until": store.TimeOrNil(filter.CreatedBefore),
	}
	if len(filter.Metadata) > 0 {
		args["metadata"] = string(store.JSON(filter.Metadata))
	}
	return args
}

// pick finds the linked ones among the items of a page, for AddParents.
func pick[T any](items []T, linked []uuid.UUID, summary func(*T) *api.JobSummary) map[uuid.UUID]*api.JobSummary {
	if len(linked) == 0 {
		return nil
	}
	shown := make(map[string]*api.JobSummary, len(items))
	for i := range items {
		one := summary(&items[i])
		shown[one.ID] = one
	}
	picked := make(map[uuid.UUID]*api.JobSummary, len(linked))
	for _, id := range linked {
		picked[id] = shown[id.String()]
	}
	return picked
}
