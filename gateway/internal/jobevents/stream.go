// Package jobevents follows jobs for their event streams.
//
//	streams of a job ─┐                        ┌ one call that waits in core
//	                  ├── its follower ────────┤
//	streams of a job ─┘   (follower.go)        └ each change is read once, encoded once, and given to all of them
//
// Streams of one tenant do not slow down those of another, see charge.
package jobevents

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Streams are the event streams of a gateway. It is safe for concurrent use.
type Streams struct {
	auth      *auth.Authenticator
	core      *call.Core
	followers followers
}

// New makes Streams. The authenticator says when the key of a stream is no longer valid.
func New(keys *auth.Authenticator, core *call.Core) *Streams {
	return &Streams{auth: keys, core: core, followers: followers{byJob: map[followed]*follower{}, byTenant: map[string]*tenantStreams{}}}
}

// Stream is one event stream of a job.
type Stream struct {
	of    *Streams
	c     *call.Call
	id    string
	first Event
}

// Open gives the stream of a call, which has read the job of that id.
func (s *Streams) Open(c *call.Call, id string, job *api.Job) (*Stream, error) {
	first, err := newEvent(job)
	return &Stream{of: s, c: c, id: id, first: first}, err
}

// Changes gives the job as it is, and then after each change, at most once in each interval; who receives more slowly
// gets the newest. It is closed when ctx ends, after the job's end, and when the stream is over: the gateway or core
// shuts down, the job is gone, or the key is no longer valid. The receiver has to take all until then.
func (s *Stream) Changes(ctx context.Context) <-chan Event {
	changes := make(chan Event)
	go func() {
		defer close(changes)
		ctx, release := s.of.auth.WhileGood(ctx, s.c.Caller)
		defer release()
		s.pass(ctx, changes)
	}()
	return changes
}

// pass passes events on. Each stream writes at its own moment within an event's spread; the first event and the end are
// passed on at once.
func (s *Stream) pass(ctx context.Context, changes chan<- Event) {
	event := s.first
	s.first = Event{} // its memory is needed only until it is written
	var f *follower
	var next <-chan struct{}
	if !event.Ended {
		f, next = s.of.join(ctx, s.c, s.id, event.version)
		defer f.leave(s.c)
	}
	moment, written := rand.Float64(), "" //nolint:gosec // spreads load, guards nothing
	to := changes                         // nil while there is nothing to pass on
	var later <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case to <- event:
			if event.Ended {
				return
			}
			to, written, event = nil, event.version, Event{}
		case <-later:
			to, later = changes, nil
		case <-next:
			event = f.latest()
			next = event.next
			switch {
			case event.over:
				return
			case event.version == written:
				to, later = nil, nil
			case event.Ended:
				to, later = changes, nil
			case to == nil && later == nil:
				later = time.After(time.Duration(moment * float64(event.spread)))
			}
		}
	}
}

// Event is a version of a job.
type Event struct {
	// Job is encoded.
	Job []byte
	// Output is the place of the last chunk of the job's output; zero for none.
	Output api.OutputPlace
	// Ended says that it is the last.
	Ended bool

	version string
	// over ends the streams of a job that has not ended.
	over bool
	// spread is the time in which the streams write the event, so that they do not write at the same moment; interval is
	// that until the next event.
	spread, interval time.Duration
	// next is closed when there is a newer event.
	next chan struct{}
}

func newEvent(job *api.Job) (Event, error) {
	text, err := call.Encode(job)
	place := api.OutputPlace{}
	if job.Output != nil {
		place, _ = api.ParseOutputPlace(*job.Output)
	}
	return Event{Job: text, Output: place, Ended: Ended(job.State), version: job.Version()}, err
}

// Ended says whether a state is an end.
func Ended(state string) bool {
	return state == api.StateCompleted || state == api.StateDeadLetter || state == api.StateCancelled
}
