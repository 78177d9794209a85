package explain

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/workers"
)

// lanesBeside bounds the other lanes of a queue that are counted before a job; where it has more, a job's own lane is its
// whole line.
const lanesBeside = 500

// beside gives the other lanes of a lane's queue.
func (e *Explainer) beside(lane *lanes.Lane) []lanes.Lane {
	others := slices.DeleteFunc(e.cached.Lanes.Of(lane.InQueue()), func(other lanes.Lane) bool { return other.ID == lane.ID })
	if len(others) > lanesBeside {
		return nil
	}
	return others
}

// place reads where a job stands in the line of its lane; its others are all lanes of its queue.
func (e *Explainer) place(ctx context.Context, spot read.QueuePosition) (line read.Ahead, beside []lanes.Lane, err error) {
	e.hear(ctx)
	beside = e.beside(&spot.Lane)
	spot.Beside = make([]lanes.ID, len(beside))
	for i := range beside {
		spot.Beside[i] = beside[i].ID
	}
	line, err = e.store.JobReads.AheadOf(ctx, spot)
	return line, beside, err
}

// turn is when a job in line is likely to start.
func (e *Explainer) turn(lane *lanes.Lane, settings *queues.Settings, line *read.Ahead, beside []lanes.Lane) Turn {
	ahead := line.Jobs
	lanes := []lanes.ID{lane.ID}
	for i := range beside {
		if taking := sharing(lane, &beside[i], settings, line.Workers); taking {
			ahead += line.Others[beside[i].ID]
			lanes = append(lanes, beside[i].ID)
		}
	}
	rate := e.rates.Line(time.Now(), lane.InQueue(), lanes)
	return Turn{Ahead: ahead, PerSecond: rate, Known: rate > 0}
}

// sharing says whether the jobs of two lanes of a queue take turns: some worker takes both, and neither a cap nor a rate
// of their own holds the first one's back.
func sharing(lane, other *lanes.Lane, settings *queues.Settings, active []workers.Active) bool {
	limit := settings.Types[lane.Type]
	switch {
	case lane.User != "" && lane.User != other.User:
		return false
	case (limit.MaxRunning != nil || limit.RatePerSecond != nil) && lane.Type != other.Type:
		return false
	case settings.Push:
		return true
	}
	return slices.ContainsFunc(active, func(w workers.Active) bool {
		filter := scheduler.Filter{Types: scheduler.Set(w.Types), Tags: scheduler.Set(w.Tags)}
		return filter.Serves(lane) && filter.Serves(other)
	})
}

// queueDrain gives how many jobs of a queue start in a second, and how long one that is submitted now would wait behind
// so many others; nil where it is not known.
func (e *Explainer) queueDrain(settings *queues.Settings, ahead int64) (perSecond *float64, waitMS *int64) {
	rate, line := e.rates.Queue(time.Now(), settings.QueueKey)
	if rate == 0 {
		return nil, nil
	}
	turn := Turn{Ahead: ahead, PerSecond: line, Known: line > 0, New: true}
	if estimate := turn.Estimate(); estimate != nil && !e.cached.HeldBack(settings) {
		waitMS = &estimate.StartsInMS
	}
	if line > 0 {
		rate = line
	}
	return new(rounded(rate)), waitMS
}

const (
	// waitFor is how long an estimate is used for further submits, maxWaits bounds them.
	waitFor  = time.Second
	maxWaits = 10_000
)

// waits are how long a new job of a lane and priority is likely to wait, as read a moment ago.
type waits struct {
	mu    sync.Mutex
	known map[LineKey]*laneWait
}

// LineKey names the jobs of a lane with one priority, in a fair lane those of one key.
type LineKey struct {
	Lane     lanes.ID
	Priority int
	Key      string
}

// LineOf names the line that a job joins. key is nil for none.
func LineOf(lane *lanes.Lane, priority int, key *string) LineKey {
	made := LineKey{Lane: lane.ID, Priority: priority}
	if lane.Fair && key != nil {
		made.Key = *key
	}
	return made
}

type laneWait struct {
	turn Turn
	at   time.Time
}

// get gives what is known of a lane and priority, less what has started since.
func (w *waits) get(key LineKey) (turn Turn, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.known[key]
	if one == nil || time.Since(one.at) > waitFor {
		return turn, false
	}
	turn = one.turn
	started := int64(time.Since(one.at).Seconds() * turn.PerSecond)
	turn.Ahead = max(turn.Ahead-started, 0)
	return turn, true
}

func (w *waits) set(key LineKey, turn Turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil || len(w.known) >= maxWaits {
		w.known = map[LineKey]*laneWait{}
	}
	w.known[key] = &laneWait{turn, time.Now()}
}

// joined counts one more job.
func (w *waits) joined(key LineKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.known[key]; one != nil {
		one.turn.Ahead++
	}
}

// TurnOf is when a job that is submitted now is likely to start, if that was read a moment ago.
func (e *Explainer) TurnOf(key LineKey) (turn Turn, known bool) { return e.waits.get(key) }

// ReadTurn reads when a job that is submitted now is likely to start.
func (e *Explainer) ReadTurn(ctx context.Context, lane *lanes.Lane, key LineKey) Turn {
	turn := e.newTurn(ctx, lane, key)
	e.waits.set(key, turn)
	return turn
}

// Joined counts one more job in a line.
func (e *Explainer) Joined(key LineKey) { e.waits.joined(key) }

// newTurn is when a job that is submitted now is likely to start.
func (e *Explainer) newTurn(ctx context.Context, lane *lanes.Lane, key LineKey) Turn {
	settings := e.cached.Lanes.Settings(lane.Tenant, lane.Queue)
	line, beside, err := e.place(ctx, read.QueuePosition{Lane: *lane, Priority: key.Priority, Key: key.Key})
	if err != nil {
		e.log.WarnContext(ctx, "how long a new job would wait is not known", "error", err)
		return Turn{}
	}
	turn := e.turn(lane, &settings, &line, beside)
	if !settings.Push && !workersFor(lane, line.Workers).OfJob {
		turn.Known = false
	}
	turn.New = true
	return turn
}
