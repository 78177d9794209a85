package jobevents

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// eventInterval is the shortest time between two events of a job.
	eventInterval = 250 * time.Millisecond
	// longestInterval bounds it where streams have more to write than eventsPerSecond.
	longestInterval = 10 * time.Second
	// eventsPerSecond is about how many events all streams of a gateway write; one counts again for each eventBytes.
	eventsPerSecond = 2000
	eventBytes      = 16 << 10
	// changeCost is how many events a change costs that has to be read in core.
	changeCost = 8
	// noVersion is no job's version: core answers at once.
	noVersion = "none"
)

// followers follow the jobs that have event streams. All streams that see a job as the same tenant and user have one
// follower: a change is read once and encoded once for all of them.
type followers struct {
	mu       sync.Mutex
	byJob    map[followed]*follower
	byTenant map[string]*tenantStreams
	// busy is until when the events are written that there have been, at eventsPerSecond.
	busy time.Time
}

// tenantStreams are a tenant's open streams. busy is that of the tenant alone, at its equal share of eventsPerSecond.
type tenantStreams struct {
	open int
	busy time.Time
}

// followed is a job as a tenant sees it, or a user of the tenant, with sensitive values or without.
type followed struct {
	tenant, user, job string
	payload           bool
}

// follower follows one job. The fields from calls on are guarded by followers.mu.
type follower struct {
	of *Streams
	followed

	// calls are those that opened the streams.
	calls  map[*call.Call]struct{}
	newest *Event
	// stale: a stream began with another version than newest, and only core knows which of both is newer. An answer to
	// a call that began before that is not used.
	stale bool
	// hangUp ends the call that waits in core; stop ends the follower.
	hangUp, stop context.CancelFunc
}

// join adds the stream of a call that has read this version of the job. The stream's next event is the follower's
// newest when next is closed.
func (s *Streams) join(ctx context.Context, c *call.Call, id, version string) (f *follower, next <-chan struct{}) {
	all := &s.followers
	all.mu.Lock()
	defer all.mu.Unlock()
	who := c.Principal()
	job := followed{tenant: who.Tenant, user: who.User, job: id, payload: slices.Contains(who.Scopes, api.ScopePayload)}
	f = all.byJob[job]
	switch {
	case f == nil:
		following, stop := context.WithCancel(context.WithoutCancel(ctx))
		f = &follower{
			of: s, followed: job, calls: map[*call.Call]struct{}{},
			newest: &Event{version: version, next: make(chan struct{})}, hangUp: func() {}, stop: stop,
		}
		all.byJob[job] = f
		go f.follow(following)
	case f.newest.version != version:
		f.stale = true
		f.hangUp()
	}
	f.calls[c] = struct{}{}
	if all.byTenant[job.tenant] == nil {
		all.byTenant[job.tenant] = &tenantStreams{}
	}
	all.byTenant[job.tenant].open++
	return f, f.newest.next
}

// leave removes the stream of a call; the last one ends the follower.
func (f *follower) leave(c *call.Call) {
	all := &f.of.followers
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(f.calls, c)
	if own := all.byTenant[f.tenant]; own.open == 1 {
		delete(all.byTenant, f.tenant)
	} else {
		own.open--
	}
	if len(f.calls) == 0 {
		f.stop()
		f.remove()
	}
}

// remove lets no further stream join. followers.mu is locked.
func (f *follower) remove() {
	if all := &f.of.followers; all.byJob[f.followed] == f {
		delete(all.byJob, f.followed)
	}
}

// latest is the newest event.
func (f *follower) latest() Event {
	f.of.followers.mu.Lock()
	defer f.of.followers.mu.Unlock()
	return *f.newest
}

// charge gives the time in which a tenant's streams write so many events after a change, and the interval until the next
// change. That ends when eventsPerSecond leave room for this one after those of all tenants, or after those of this
// tenant at its equal share, whichever is sooner: so no tenant slows another's streams down, and all write at most twice
// as many. followers.mu is locked.
func (all *followers) charge(tenant string, events int) (spread, interval time.Duration) {
	const one = time.Second / eventsPerSecond
	now, cost := time.Now(), time.Duration(events+changeCost)*one
	after := func(busy time.Time, cost time.Duration) time.Time {
		if busy.Before(now) {
			busy = now
		}
		return now.Add(min(busy.Sub(now)+cost, longestInterval))
	}
	all.busy = after(all.busy, cost)
	free := all.busy
	if own := all.byTenant[tenant]; own != nil {
		own.busy = after(own.busy, cost*time.Duration(len(all.byTenant)))
		if own.busy.Before(free) {
			free = own.busy
		}
	}
	interval = max(eventInterval, free.Sub(now))
	return min(interval, time.Duration(events)*one), interval
}

// follow publishes changes until the job has ended, the streams are over, or none is left.
func (f *follower) follow(ctx context.Context) {
	defer f.stop()
	for over := false; !over; over = over || f.pause(ctx) {
		asking, version := f.begin(ctx)
		job, ended := f.next(asking, version)
		switch {
		case ctx.Err() != nil:
			return
		case asking.Err() != nil: // hung up: core is asked again
		case ended:
			over = f.publish(Event{over: true})
		default:
			over = f.publishJob(&job)
		}
	}
}

// begin gives the context of the next call, and the version that the job must not have any more.
func (f *follower) begin(ctx context.Context) (context.Context, string) {
	f.of.followers.mu.Lock()
	defer f.of.followers.mu.Unlock()
	f.hangUp() // frees the last context
	ctx, f.hangUp = context.WithCancel(ctx)
	if f.stale {
		f.stale = false
		return ctx, noVersion
	}
	return ctx, f.newest.version
}

// next waits until the job has another version than the one given. While core cannot be asked it tries again. The
// streams are over if core or this gateway drains, or the job is gone.
func (f *follower) next(ctx context.Context, version string) (_ api.Job, over bool) {
	for {
		begun := time.Now()
		job, err := f.wait(ctx, hop.WaitForJobRequest{Version: version}, api.MaxWait)
		switch {
		case err == nil && job.Version() != version:
			return job, false
		case err == nil && time.Since(begun) >= api.MaxWait-time.Second:
			continue
		case err == nil, ctx.Err() != nil, errors.Is(err, cellclient.ErrCutShort) && f.of.core.IsDraining():
			return job, true // core drains, or the call was hung up, or this gateway drains
		}
		if p, ok := problem.From(err); ok && p.Code == problem.NotFound {
			return job, true
		}
		cellclient.ShortWait(ctx, api.MaxWait)
		read, err := call.Send(ctx, f.of.core, f.caller(0), hop.GetJob, hop.ID{ID: f.job})
		if err == nil && read.Value.Version() != version {
			return read.Value, false
		}
	}
}

// pause waits for the interval after an event. After the shortest interval an end is published at once; over says so.
func (f *follower) pause(ctx context.Context) (over bool) {
	left := f.latest().interval - eventInterval
	if wait.For(ctx, eventInterval) != nil || left <= 0 {
		return false
	}
	job, err := f.wait(ctx, hop.WaitForJobRequest{Ended: true}, left)
	return err == nil && Ended(job.State) && f.publishJob(&job)
}

// wait asks core to answer when the job is as requested, or after most.
func (f *follower) wait(ctx context.Context, request hop.WaitForJobRequest, most time.Duration) (api.Job, error) {
	request.ID, request.WaitMS = f.job, most.Milliseconds()
	answer, err := call.SendAs(ctx, f.of.core, f.caller(most), hop.WaitForJob, cellclient.How{Parked: true}, request)
	return answer.Value, err
}

// caller is a call for one of the streams that there are now: the key of another one may have been revoked.
func (f *follower) caller(most time.Duration) *call.Call {
	f.of.followers.mu.Lock()
	defer f.of.followers.mu.Unlock()
	for c := range f.calls {
		return &call.Call{RequestID: c.RequestID, CorrelationID: c.CorrelationID, Traceparent: c.Traceparent, Caller: c.Caller, Wait: most}
	}
	return &call.Call{} // the context has ended with the last stream
}

// publishJob gives the streams a version of the job; over says that it was the last.
func (f *follower) publishJob(job *api.Job) (over bool) {
	event, err := newEvent(job)
	event.over = err != nil
	return f.publish(event)
}

func (f *follower) publish(event Event) (over bool) {
	all := &f.of.followers
	all.mu.Lock()
	defer all.mu.Unlock()
	if f.stale && !event.over {
		return false
	}
	event.spread, event.interval = all.charge(f.tenant, len(f.calls)*(1+len(event.Job)/eventBytes))
	event.next = make(chan struct{})
	close(f.newest.next)
	f.newest = &event
	if event.over || event.Ended {
		f.remove()
		return true
	}
	return false
}
