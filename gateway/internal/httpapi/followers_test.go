package httpapi_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/jobevents"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// waits is what core was asked to wait for so far.
func (d *door) waits() (all []hop.WaitForJobRequest) {
	for _, request := range d.core.Requests(hop.WaitForJob.Path) {
		var wait hop.WaitForJobRequest
		if err := json.Unmarshal(request.Items[0].Request, &wait); err != nil {
			d.t.Error(err)
		}
		all = append(all, wait)
	}
	return all
}

// wantEnd reads the end, which at most one event is before.
func (e *events) wantEnd() {
	e.t.Helper()
	name, got := e.next()
	if name == "job" {
		name, got = e.next()
	}
	if name != "end" || got.State != api.StateCompleted {
		e.t.Fatalf("%q %s", name, got.State)
	}
}

// All streams of a job that see it as the same tenant and user share one call to core.
func TestStreamsOfAJobShareACall(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	job := d.watched(api.StateQueued)
	ofUser := d.keyWith(func(k *hop.KeyRecord) { k.User, k.Scopes = "u", []string{api.ScopeRead} })
	var streams []*events
	for _, key := range []string{d.key("read"), d.key("read"), ofUser, d.anotherTenantsKey()} {
		for range 10 {
			streams = append(streams, d.events(eventsPath, key))
		}
	}
	for _, stream := range streams {
		stream.want("job", api.StateQueued)
	}
	eventually(t, "core to be asked", func() bool { return len(d.waits()) == 3 })
	for i, state := range []string{api.StateRunning, api.StateCompleted} {
		job.change(toState(state))
		name := []string{"job", "end"}[i]
		for _, stream := range streams {
			stream.want(name, state)
		}
	}
	calls := map[[2]string]int{}
	for _, request := range d.core.Requests(hop.WaitForJob.Path) {
		who := request.Items[0].Principal
		calls[[2]string{who.Tenant, who.User}]++
	}
	for who, n := range calls {
		if len(calls) != 3 || n != 2 {
			t.Errorf("%d calls for 2 changes as %v", n, who)
		}
	}
}

// Fast changes are merged, at most four events a second; the last state before a pause is not lost, and neither is the end.
func TestFastChangesAreMerged(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	job := d.watched(api.StateRunning)
	begun := time.Now()
	stream := d.events(eventsPath, d.key("read"))
	stream.want("job", api.StateRunning)
	const fast = 8
	var last atomic.Int64
	enough, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for every := time.NewTicker(20 * time.Millisecond); ; <-every.C {
			job.change(func(j *api.Job) { j.Epoch = last.Add(1) })
			select {
			case <-enough:
				return
			default:
			}
		}
	}()
	for range fast {
		stream.want("job", api.StateRunning)
	}
	if took := time.Since(begun); took < (fast-1)*250*time.Millisecond {
		t.Errorf("%d events within %v", fast, took)
	}
	close(enough)
	<-stopped
	for stream.want("job", api.StateRunning).Epoch != last.Load() {
	}
	job.change(func(j *api.Job) { j.Epoch++ })
	job.change(toState(api.StateCompleted)) // at once after another
	stream.wantEnd()
}

// With very many streams there are fewer events; the end does not wait for the next one.
func TestManyStreamsHaveFewerEvents(t *testing.T) {
	t.Parallel()
	const most, interval = 700, 350 * time.Millisecond // by 2,000 events a second
	d := newDoor(t)
	d.server.SetStreamTimes(time.Hour, time.Hour, time.Minute)
	job := d.watched(api.StateRunning)
	var streams []*events
	for key := d.key("read"); len(streams) < most; {
		streams = append(streams, d.events(eventsPath, key))
		streams[len(streams)-1].want("job", api.StateRunning)
	}
	begun := time.Now()
	const changes = 4
	for i := range int64(changes) {
		job.change(func(j *api.Job) { j.Epoch = i + 1 })
		for _, stream := range streams {
			if got := stream.want("job", api.StateRunning); got.Epoch != i+1 {
				t.Fatalf("epoch %d, want %d", got.Epoch, i+1)
			}
		}
	}
	if took := time.Since(begun); took < (changes-1)*interval {
		t.Errorf("%d events of %d streams within %v", changes, most, took)
	}
	forTheEnd := func() (calls int) {
		for _, wait := range d.waits() {
			if wait.Ended {
				calls++
			}
		}
		return calls
	}
	before := forTheEnd()
	job.change(func(j *api.Job) { j.Epoch = changes + 1 })
	eventually(t, "core to be asked for the end alone", func() bool { return forTheEnd() > before })
	job.change(toState(api.StateCompleted))
	for _, stream := range streams {
		stream.wantEnd()
	}
}

// A key that is revoked ends its own streams, also the one that began to follow; the others go on.
func TestARevokedKeyEndsItsOwnStreams(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	job := d.watched(api.StateQueued)
	var id string
	first := d.events(eventsPath, d.keyWith(func(k *hop.KeyRecord) { id, k.Scopes = k.KeyID, []string{api.ScopeRead} }))
	first.want("job", api.StateQueued)
	second := d.events(eventsPath, d.key("read"))
	second.want("job", api.StateQueued)
	d.core.RevokeKey(id)
	d.auth.Forget(id)
	first.want("again", "")
	for _, state := range []string{api.StateRunning, api.StateQueued} {
		job.change(toState(state))
		second.want("job", state)
	}
	requests := d.core.Requests(hop.WaitForJob.Path)
	if got := requests[len(requests)-1].Items[0].Principal; got.Tenant != tenantID || got.KeyID == id {
		t.Errorf("core is asked for the revoked key: %+v", got)
	}
	job.change(toState(api.StateCompleted))
	second.want("end", api.StateCompleted)
	eventually(t, "the streams to end", func() bool { return d.openStreams() == 0 })
	if n := len(requests); n < 2 || n > 3 {
		t.Errorf("core was asked %d times before the end", n)
	}
}

// A stream that begins with a newer version than the others have has core asked again: the others get it too.
func TestAStreamThatKnowsMore(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	job := d.watched(api.StateQueued)
	first := d.events(eventsPath, d.key("read"))
	first.want("job", api.StateQueued)
	eventually(t, "core to be asked", func() bool { return len(d.waits()) == 1 })
	job.mu.Lock()
	job.job.State = api.StateRunning // and core does not notice yet
	job.mu.Unlock()
	second := d.events(eventsPath, d.key("read"))
	second.want("job", api.StateRunning)
	first.want("job", api.StateRunning)
	job.change(func(j *api.Job) { j.Epoch = 7 })
	for _, stream := range []*events{first, second} {
		if got := stream.want("job", api.StateRunning); got.Epoch != 7 {
			t.Errorf("epoch %d", got.Epoch)
		}
	}
}

// A reader that is slow delays no other one, and continues with the newest version.
func TestASlowReaderDelaysNoOther(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.server.SetStreamTimes(time.Hour, time.Hour, time.Hour)
	job := inState(api.StateRunning)
	job.Payload = json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)
	var epoch atomic.Int64
	const last = 15 // more than the sockets' buffers hold
	d.core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, job) })
	d.core.On(hop.WaitForJob.Path, func(coretest.Item) coretest.Result {
		next := job
		if next.Epoch = epoch.Add(1); next.Epoch > last {
			next.State = api.StateCompleted
		}
		return coretest.Value(200, next)
	})
	slow, fast := d.events(eventsPath, d.key("read")), d.events(eventsPath, d.key("read"))
	read := func(stream *events) (events int) {
		for {
			events++
			if name, got := stream.next(); name == "end" && jobevents.Ended(got.State) {
				return events
			} else if name != "job" {
				t.Fatalf("%q after %d events", name, events)
			}
		}
	}
	if n := read(fast); n < last {
		t.Errorf("the fast reader has %d events", n)
	}
	if n := read(slow); n >= last-2 {
		t.Errorf("the slow reader has %d events", n)
	}
}
