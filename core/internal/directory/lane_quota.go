package directory

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// How many lanes in use, and queues, a tenant may have; how many of them may be made
// for jobs that name a user; and how many for one user. What is left is for jobs
// without a user, so that users never keep out their tenant.
const (
	MaxLanes      = 10_000
	maxUsersLanes = 9_000
	MaxUserLanes  = 1_000

	MaxQueues      = 1_000
	maxUsersQueues = 900
	MaxUserQueues  = 100
)

// LaneBound is a bound on lanes or on queues.
type LaneBound int

// The bounds; 0 is none.
const (
	TenantLanes LaneBound = iota + 1
	UsersLanes
	UserLanes
	TenantQueues
	UsersQueues
	UserQueues
)

// Refusal is the problem of a job whose lane the bound keeps from being made.
func (b LaneBound) Refusal() *problem.Problem {
	said := map[LaneBound]string{
		TenantLanes:  fmt.Sprintf("A tenant may use at most %d combinations of queue and tags at a time, those of users with a running cap of their own included.", MaxLanes),
		UsersLanes:   fmt.Sprintf("Jobs that name a user may use at most %d combinations of queue and tags of a tenant at a time.", maxUsersLanes),
		UserLanes:    fmt.Sprintf("One user's jobs may use at most %d combinations of queue and tags at a time.", MaxUserLanes),
		TenantQueues: fmt.Sprintf("A tenant may have at most %d queues.", MaxQueues),
		UsersQueues:  fmt.Sprintf("Jobs that name a user may make at most %d queues of a tenant.", maxUsersQueues),
		UserQueues:   fmt.Sprintf("One user's jobs may make at most %d queues.", MaxUserQueues),
	}[b]
	return problem.New(problem.TooManyLanes, said+" Use a queue and tags that are in use.")
}

// share is how much of something is there, and how much there may be.
type share struct {
	all, users int
	by         map[string]int
	// most, of all, for users, for one user; and the bounds that say so
	most  [3]int
	bound [3]LaneBound
}

// full gives the bound that keeps a user, "" for none, from another one.
func (s *share) full(user string) LaneBound {
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

func (s *share) add(user string, n int) {
	s.all += n
	if user != "" {
		s.users += n
		s.by[user] += n
	}
}

// laneRoom is what a tenant has of lanes and of queues.
type laneRoom struct {
	lanes, queues share
	// names are the queues among those asked for that are there.
	names map[string]bool
}

func newLaneRoom() *laneRoom {
	return &laneRoom{
		lanes: share{
			by: map[string]int{}, most: [3]int{MaxLanes, maxUsersLanes, MaxUserLanes},
			bound: [3]LaneBound{TenantLanes, UsersLanes, UserLanes},
		},
		queues: share{
			by: map[string]int{}, most: [3]int{MaxQueues, maxUsersQueues, MaxUserQueues},
			bound: [3]LaneBound{TenantQueues, UsersQueues, UserQueues},
		},
		names: map[string]bool{},
	}
}

// take takes room for a lane, and for its queue where that is new.
func (r *laneRoom) take(ask LaneAsk) (newQueue bool, full LaneBound) {
	newQueue = !r.names[ask.Queue]
	if newQueue {
		if full := r.queues.full(ask.For); full != 0 {
			return false, full
		}
	}
	if full := r.lanes.full(ask.For); full != 0 {
		return false, full
	}
	if newQueue {
		r.names[ask.Queue] = true
		r.queues.add(ask.For, 1)
	}
	r.lanes.add(ask.For, 1)
	return newQueue, 0
}

// countLanesSQL and countQueuesSQL count what a tenant has: by user for those asked for.
const (
	countLanesSQL = `
SELECT CASE WHEN made_for = ANY(@makers::text[]) THEN made_for END AS maker, made_for <> '' AS users, count(*) AS n
FROM lanes WHERE tenant_id = @tenant_id AND retired_at IS NULL
GROUP BY 1, 2`
	countQueuesSQL = `
SELECT CASE WHEN made_for = ANY(@makers::text[]) THEN made_for END AS maker, made_for <> '' AS users, count(*) AS n
FROM queues WHERE tenant_id = @tenant_id
GROUP BY 1, 2`
	queuesThereSQL = `SELECT name FROM queues WHERE tenant_id = @tenant_id AND name = ANY(@queues::text[])`
)

// readLanes takes the tenant's lock and reads what there is of what is asked for.
func readLanes(ctx context.Context, tx pgx.Tx, owner tenant.ID, asks []LaneAsk) (map[int]knownLane, *laneRoom, error) {
	known, room := map[int]knownLane{}, newLaneRoom()
	batch := &pgx.Batch{}
	batch.Queue(usage.LockTimeoutSQL, pgx.StrictNamedArgs{"timeout": usage.LockTimeout(ctx)})
	batch.Queue(store.AdvisoryLockSQL, pgx.StrictNamedArgs{"key": store.LockKey(store.LockLane, owner)})
	batch.Queue(knownLanesSQL, laneArgs(owner, asks, "queues", "tags", "users")).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[knownLane])
		for _, lane := range found {
			known[int(lane.Place)] = lane
		}
		return err
	})
	batch.Queue(countLanesSQL, laneArgs(owner, asks, "makers")).Query(room.lanes.read)
	batch.Queue(countQueuesSQL, laneArgs(owner, asks, "makers")).Query(room.queues.read)
	batch.Queue(queuesThereSQL, laneArgs(owner, asks, "queues")).Query(func(rows pgx.Rows) error {
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, name := range names {
			room.names[name] = true
		}
		return err
	})
	return known, room, tx.SendBatch(ctx, batch).Close()
}

// read takes what countLanesSQL or countQueuesSQL says.
func (s *share) read(rows pgx.Rows) error {
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

// roomForQueueSQL is false where a queue would be one more than a tenant may have.
const roomForQueueSQL = `
SELECT EXISTS (SELECT FROM queues WHERE tenant_id = @tenant_id AND name = @name)
    OR (SELECT count(*) FROM queues WHERE tenant_id = @tenant_id) < @most`

// roomForQueue refuses, with ErrTooManyQueues, a queue that is new and one too many.
// Two at once may both be the last.
func (s *Directory) roomForQueue(ctx context.Context, owner tenant.ID, name string) error {
	room, err := store.Query(ctx, s.Store, pgx.RowTo[bool], roomForQueueSQL, pgx.StrictNamedArgs{"tenant_id": owner, "name": name, "most": MaxQueues})
	if err != nil {
		return fmt.Errorf("directory: settings: %w", store.NothingChanged(err))
	}
	if !room[0] {
		return ErrTooManyQueues
	}
	return nil
}
