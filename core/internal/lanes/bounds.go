package lanes

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Errors that a caller may act on, besides those of package store.
var (
	// ErrTooMany: the tenant has reached its bound of (queue, tags).
	ErrTooMany = errors.New("lanes: too many lanes")
)

// Bounds on a tenant's lanes and queues, retired lanes included until they are deleted: in total, those made for jobs that name a user, and
// those for one user. The difference is left for jobs without a user, so that users never block
// their tenant.
const (
	Max           = 10_000
	maxUsersLanes = 9_000
	MaxOfUser     = 1_000

	MaxQueues      = 1_000
	maxUsersQueues = 900
	MaxUserQueues  = 100
)

// Bound is a bound on lanes or on queues.
type Bound int

// The bounds; 0 is none.
const (
	OfTenant Bound = iota + 1
	OfUsers
	OfUser
	QueuesOfTenant
	QueuesOfUsers
	QueuesOfUser
)

// Refusal is the problem of a job whose lane the bound prevents.
func (b Bound) Refusal() *problem.Problem {
	text := map[Bound]string{
		OfTenant:       fmt.Sprintf("A tenant may use at most %d combinations of queue, type and tags at a time, including those of users with their own running cap.", Max),
		OfUsers:        fmt.Sprintf("Jobs that name a user may use at most %d combinations of queue, type and tags of a tenant at a time.", maxUsersLanes),
		OfUser:         fmt.Sprintf("One user's jobs may use at most %d combinations of queue, type and tags at a time.", MaxOfUser),
		QueuesOfTenant: fmt.Sprintf("A tenant may have at most %d queues.", MaxQueues),
		QueuesOfUsers:  fmt.Sprintf("Jobs that name a user may make at most %d queues of a tenant.", maxUsersQueues),
		QueuesOfUser:   fmt.Sprintf("One user's jobs may make at most %d queues.", MaxUserQueues),
	}[b]
	return problem.New(problem.TooManyLanes, text+" Use a queue, type and tags that are already in use.")
}

// boundedUse is the number of lanes or queues, and its bounds.
type boundedUse struct {
	all, users int
	by         map[string]int
	// most: in total, for users, for one user; and the bounds as reported
	most  [3]int
	bound [3]Bound
}

// full gives the bound that prevents one more for a user, "" for none.
func (s *boundedUse) full(user string) Bound {
	switch {
	case s.all >= s.most[0]:
		return s.bound[0]
	case user != "" && s.users >= s.most[1]:
		return s.bound[1]
	case user != "" && s.by[user] >= s.most[2]:
		return s.bound[2]
	}
	return 0
}

func (s *boundedUse) add(user string, n int) {
	s.all += n
	if user != "" {
		s.users += n
		s.by[user] += n
	}
}

// laneUse is a tenant's number of lanes and of queues.
type laneUse struct {
	lanes, queues boundedUse
	// names are the requested queues that exist.
	names map[string]bool
}

func newLaneUse() *laneUse {
	return &laneUse{
		lanes: boundedUse{
			by: map[string]int{}, most: [3]int{Max, maxUsersLanes, MaxOfUser},
			bound: [3]Bound{OfTenant, OfUsers, OfUser},
		},
		queues: boundedUse{
			by: map[string]int{}, most: [3]int{MaxQueues, maxUsersQueues, MaxUserQueues},
			bound: [3]Bound{QueuesOfTenant, QueuesOfUsers, QueuesOfUser},
		},
		names: map[string]bool{},
	}
}

// revive is take for a retired lane, which is counted for the user that it was made for.
func (r *laneUse) revive(ask Ask, requestedBy string) (newQueue bool, full Bound) {
	r.lanes.add(requestedBy, -1)
	if newQueue, full = r.take(ask); full != 0 || api.SystemQueue(ask.Queue) {
		r.lanes.add(requestedBy, 1)
	}
	return newQueue, full
}

// take reserves a lane, and its queue if that is new.
func (r *laneUse) take(ask Ask) (newQueue bool, full Bound) {
	newQueue = !r.names[ask.Queue]
	if api.SystemQueue(ask.Queue) { // few, and a delivery cannot be refused
		r.names[ask.Queue] = true
		return newQueue, 0
	}
	if newQueue {
		if full := r.queues.full(ask.RequestedBy); full != 0 {
			return false, full
		}
	}
	if full := r.lanes.full(ask.RequestedBy); full != 0 {
		return false, full
	}
	if newQueue {
		r.names[ask.Queue] = true
		r.queues.add(ask.RequestedBy, 1)
	}
	r.lanes.add(ask.RequestedBy, 1)
	return newQueue, 0
}

// QueueThere is false for the row of a deleted queue.
const QueueThere = `deleted_at IS DISTINCT FROM updated_at`

// countLanesSQL and countQueuesSQL count a tenant's lanes and queues: by user for those requested.
const (
	countLanesSQL = `
SELECT CASE WHEN requested_by = ANY(@makers::text[]) THEN requested_by END AS maker, requested_by <> '' AS users, count(*) AS n
FROM lanes WHERE tenant_id = @tenant_id
GROUP BY 1, 2`
	countQueuesSQL = `
SELECT CASE WHEN requested_by = ANY(@makers::text[]) THEN requested_by END AS maker, requested_by <> '' AS users, count(*) AS n
FROM queues WHERE tenant_id = @tenant_id AND ` + QueueThere + `
GROUP BY 1, 2`
	queuesThereSQL = `SELECT name FROM queues WHERE tenant_id = @tenant_id AND name = ANY(@queues::text[]) AND ` + QueueThere
)

// readLanes takes the tenant's lock and reads the existing lanes and the counts.
func (s *Lanes) readLanes(ctx context.Context, tx pgx.Tx, owner tenant.ID, asks []Ask) (map[int]knownLane, *laneUse, error) {
	known, use := map[int]knownLane{}, newLaneUse()
	batch := &pgx.Batch{}
	batch.Queue(caps.LockTimeoutSQL, store.Args{"timeout": caps.LockTimeout(ctx)})
	batch.Queue(store.AdvisoryLockSQL, store.Args{"key": s.LockKey(store.LockLane, owner)})
	batch.Queue(knownLanesSQL, laneArgs(owner, asks, "queues", "types", "tags", "users", "fair", "budgeted")).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[knownLane])
		for _, lane := range found {
			known[int(lane.Place)] = lane
		}
		return err
	})
	batch.Queue(countLanesSQL, laneArgs(owner, asks, "makers")).Query(use.lanes.read)
	batch.Queue(countQueuesSQL, laneArgs(owner, asks, "makers")).Query(use.queues.read)
	batch.Queue(queuesThereSQL, laneArgs(owner, asks, "queues")).Query(func(rows pgx.Rows) error {
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, name := range names {
			use.names[name] = true
		}
		return err
	})
	return known, use, tx.SendBatch(ctx, batch).Close()
}

// read takes the result of countLanesSQL or countQueuesSQL.
func (s *boundedUse) read(rows pgx.Rows) error {
	var maker *string
	var users bool
	var n int
	_, err := pgx.ForEachRow(rows, []any{&maker, &users, &n}, func() error {
		s.all += n
		if users {
			s.users += n
			if maker != nil {
				s.by[*maker] += n
			}
		}
		return nil
	})
	return err
}
