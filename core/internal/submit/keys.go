package submit

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// atGate says that the job waits at the gate of its key, where it does not wait for its time or its parents: it may not pass
// yet, or has no turn.
func (n *NewJob) atGate() bool { return n.held || n.Fair && n.turn == nil }

// atOnce says that the job may be queued at once, by what it says itself.
func (n *NewJob) atOnce() bool { return n.Delay == 0 && len(n.After) == 0 }

// takeTurns gives the jobs in fair lanes their turns. Those for which it is not called, or that are not queued at once, come
// to the gates of their keys.
func (s *Submitter) takeTurns(ctx context.Context, submissions []Submission) error {
	var fair []*NewJob
	var joining []gate.Joining
	for i := range submissions {
		for j := range submissions[i].Jobs {
			if n := &submissions[i].Jobs[j]; n.Fair && n.Key != nil && n.Costs == nil && submissions[i].refusal(j) == nil && n.atOnce() {
				fair = append(fair, n)
				joining = append(joining, gate.Joining{Lane: n.Lane, Priority: int16(n.Priority), Key: *n.Key, Weight: n.KeyWeight}) //nolint:gosec // 0 to 9
			}
		}
	}
	if len(fair) == 0 {
		return nil
	}
	conn, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	turns, err := s.gate.Turns(ctx, conn, joining)
	if err != nil {
		return store.NotApplied(store.Classify(err))
	}
	for i, n := range fair {
		n.turn = &turns[i]
	}
	return nil
}

// limited says that the submission has a job under a limit by key.
func (s *Submission) limited() bool {
	return slices.ContainsFunc(s.Jobs, func(j NewJob) bool { return j.Limit != gate.None || j.ToGate })
}

// keys counts the jobs past the gates of the keys of submissions that are stored whole.
type keys struct {
	// room is how many more jobs of a key may pass.
	room map[gate.Key]int64
}

// queueKeys queues the statements that take the locks of the gates, and read what is past them.
func (s *Submitter) queueKeys(batch *pgx.Batch, submissions []Submission) *keys {
	read := &keys{room: map[gate.Key]int64{}}
	var owners []tenant.ID
	var asked []gate.Asked
	for i := range submissions {
		for j := range submissions[i].Jobs {
			n := &submissions[i].Jobs[j]
			if n.Limit == gate.None || n.Key == nil {
				continue
			}
			key := n.gateKey(submissions[i].Tenant)
			if _, known := read.room[key]; known {
				continue
			}
			read.room[key] = 0
			owners, asked = append(owners, key.Tenant), append(asked, gate.Asked{Key: key, MaxRunning: n.MaxRunning, Hold: n.HoldOnDead})
		}
	}
	if len(asked) > 0 {
		s.gate.QueueLock(batch, owners)
		gate.QueueRoom(batch, asked, read.room)
	}
	return read
}

func (n *NewJob) gateKey(owner tenant.ID) gate.Key {
	return gate.Key{Tenant: owner, Queue: n.Queue, Key: *n.Key}
}

// hold lets the jobs pass for which there is room, in their order, and holds the others.
func (k *keys) hold(submissions []Submission) {
	for i := range submissions {
		for j := range submissions[i].Jobs {
			n := &submissions[i].Jobs[j]
			if n.Limit == gate.None || n.Key == nil || submissions[i].refusal(j) != nil {
				continue
			}
			key := n.gateKey(submissions[i].Tenant)
			n.held = k.room[key] <= 0
			switch {
			case n.Limit == gate.Ordered: // a delayed one is before the others too
				k.room[key] = 0
			case !n.held && n.atOnce():
				k.room[key]--
			}
		}
	}
}

// holdAll holds all jobs under a limit: what is stored is not known yet.
func holdAll(submissions []Submission) {
	for i := range submissions {
		for j := range submissions[i].Jobs {
			if n := &submissions[i].Jobs[j]; n.Limit != gate.None || n.ToGate {
				n.held = true
			}
		}
	}
}

// addKeys adds the columns of inputSQL that insertJobsSQL does not have.
func addKeys(args store.Args, submissions []Submission, places []place) {
	n := len(places)
	keys, weights, turns, gates, held := make([]*string, n), make([]*float64, n), make([]*time.Time, n), make([]int16, n), make([]bool, n)
	costs := make([]*string, n)
	for i, p := range places {
		j := &submissions[p.submission].Jobs[p.job]
		if j.Costs != nil {
			text := string(store.JSON(j.Costs))
			costs[i] = &text
		}
		keys[i], weights[i], turns[i], gates[i], held[i] = j.Key, j.KeyWeight, j.turn, int16(j.Limit), j.atGate()
	}
	args["keys"], args["weights"], args["turns"] = unlessNone(keys), unlessNone(weights), unlessNone(turns)
	args["gates"], args["held"], args["costs"] = oneOrAll(gates), oneOrAll(held), unlessNone(costs)
}

// checksOf are the keys with jobs that were stored at their gates, where a job may have to pass.
func checksOf(submissions []Submission, results [][]JobResult) []gate.Key {
	var keys []gate.Key
	for i := range results {
		for j := range results[i] {
			if r := &results[i][j]; r.Row != nil && !r.Deduplicated && r.Row.AtGate && r.Row.State == api.StateQueued {
				keys = append(keys, submissions[i].Jobs[j].gateKey(submissions[i].Tenant))
			}
		}
	}
	return keys
}
