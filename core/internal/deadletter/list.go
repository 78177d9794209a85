package deadletter

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const deadLettersSQL = `
WITH chunk AS MATERIALIZED (
  SELECT ` + read.BriefDeadColumns + `, fingerprint
  FROM dead_letters
  WHERE ` + read.ListBefore + `
)
SELECT * FROM (
  SELECT *, COALESCE(` + read.QueueMatches + `
         AND (@type::text IS NULL OR type = @type)
         AND (@user::text IS NULL OR user_id = @user)
         AND (@reason::text IS NULL OR reason = @reason)
         AND (@fingerprint::text IS NULL OR fingerprint = @fingerprint)
         AND (@after::timestamptz IS NULL OR finished_at > @after)
         AND (@until::timestamptz IS NULL OR finished_at < @until), false) AS hit,
         lead(id) OVER (ORDER BY uuid_send(id) DESC) IS NULL AS last,
         count(*) OVER () AS read
  FROM chunk
) AS judged
WHERE hit OR last
ORDER BY uuid_send(id) DESC`

type listedDead struct {
	read.Listed
	Fingerprint string
}

// DeadLetters gives a page of a tenant's dead letters that match, newest id
// first. user, where not empty, is the only user whose jobs the caller may see.
func (s *Letters) DeadLetters(ctx context.Context, owner tenant.ID, user string, filter api.DeadLetterFilter, size int, token string) (api.Page[api.DeadLetter], error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	args := store.Args{
		"tenant_id": owner, "queue": store.NullIfEmpty(filter.Queue), "type": store.NullIfEmpty(filter.Type), "user": store.NullIfEmpty(user),
		"reason": store.NullIfEmpty(filter.Reason), "fingerprint": store.NullIfEmpty(filter.Fingerprint),
		"after": store.TimeOrNil(filter.After), "until": store.TimeOrNil(filter.Before),
	}
	return store.PageOf(ctx, s.Store, "dead letters", deadLettersSQL, args, size, token, s.deadLetter)
}

func (s *Letters) deadLetter(row *listedDead) api.DeadLetter {
	dead := api.DeadLetter{
		Job: row.Summary(), Reason: *row.Reason, Error: row.Failure(), Fingerprint: row.Fingerprint,
		Attempts: int(row.Attempt), DiedAt: api.At(*row.FinishedAt),
	}
	if s.retention > 0 {
		dead.ExpiresAt = &api.Time{Time: row.FinishedAt.Add(s.retention)}
	}
	return dead
}

// deadByID selects dead letters of a tenant by id. Not tenant_id = @tenant_id: with a plan made
// while the table was empty that would be looked up by tenant, and read all of the tenant's rows.
const deadByID = `id = ANY(@ids::uuid[]) AND uuid_send(tenant_id) = uuid_send(@tenant_id::uuid)`
