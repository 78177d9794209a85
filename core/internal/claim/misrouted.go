package claim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// MisroutedJob is a waiting job in the wrong lane: its user has got a running cap since it was
// stored.
type MisroutedJob struct {
	jobs.Ready
	User string
}

const moveSQL = `
UPDATE jobs SET lane_id = COALESCE((@to::bigint[])[width_bucket(id, @ids::uuid[])], lane_id)
WHERE id = ANY(@ids::uuid[]) AND lane_id = (@from::bigint[])[width_bucket(id, @ids::uuid[])] AND state <> 'running'
  AND tenant_id <> ALL(` + store.MovingSQL + `)`

// Move moves misrouted jobs, of any tenants, into the lanes given, where they keep their ready_at.
// A job that was leased or moved since is left.
func (s *Claimer) Move(ctx context.Context, misrouted []MisroutedJob, to []lanes.ID) error {
	order := make([]int, len(misrouted))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { // in the order of ids, as in every statement
		return strings.Compare(string(misrouted[a].ID[:]), string(misrouted[b].ID[:]))
	})
	ids, from, lanes := make([]uuid.UUID, len(misrouted)), make([]lanes.ID, len(misrouted)), make([]lanes.ID, len(misrouted))
	for i, index := range order {
		ids[i], from[i], lanes[i] = misrouted[index].ID, misrouted[index].Lane, to[index]
	}
	if err := store.Exec(ctx, s.Store, moveSQL, store.Args{"ids": ids, "from": from, "to": lanes}); err != nil {
		return fmt.Errorf("claim: move: %w", store.NotApplied(err)) // a move with unknown outcome is repeated
	}
	return nil
}
