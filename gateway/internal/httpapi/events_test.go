package httpapi_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/jobevents"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// watchedJob is a job of core's that tests change while streams wait for that.
type watchedJob struct {
	mu      sync.Mutex
	job     api.Job
	changed chan struct{}
	// cut ends waits early, as a core that drains does.
	cut  chan struct{}
	gone bool
}

func (d *door) watched(state string) *watchedJob {
	w := &watchedJob{job: inState(state), changed: make(chan struct{}), cut: make(chan struct{})}
	answer := func() coretest.Result {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.gone {
			return coretest.Refuse(problem.NotFound, "core's words")
		}
		return coretest.Value(200, w.job)
	}
	d.core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return answer() })
	d.core.On(hop.WaitForJob.Path, func(item coretest.Item) coretest.Result {
		var request hop.WaitForJobRequest
		if err := json.Unmarshal(item.Request, &request); err != nil || (request.Version == "") != request.Ended {
			d.t.Errorf("core got %s: %v", item.Request, err)
		}
		for over := time.After(time.Duration(request.WaitMS) * time.Millisecond); ; {
			w.mu.Lock()
			other, changed := w.gone || w.job.Version() != request.Version, w.changed
			if request.Ended {
				other = jobevents.Ended(w.job.State)
			}
			w.mu.Unlock()
			if other {
				return answer()
			}
			select {
			case <-changed:
			case <-w.cut:
				return answer()
			case <-d.t.Context().Done():
				return answer()
			case <-over:
				return answer()
			}
		}
	})
	return w
}

func (w *watchedJob) change(change func(*api.Job)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.job)
	close(w.changed)
	w.changed = make(chan struct{})
}

func toState(state string) func(*api.Job) { return func(j *api.Job) { j.State = state } }

// events is an event stream that a test reads.
type events struct {
	*http.Response
	t     *testing.T
	lines *bufio.Scanner
}

func (d *door) events(path, key string) *events {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	return d.open(request)
}

func (d *door) open(request *http.Request) *events {
	d.t.Helper()
	response, err := d.client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 8<<20)
	return &events{response, d.t, lines}
}

// next gives the name and the job of the next event; "" at the stream's end, ":" for a comment.
func (e *events) next() (name string, job api.Job) {
	e.t.Helper()
	for e.lines.Scan() {
		switch line := e.lines.Text(); {
		case line == ":":
			return line, job
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[len("data: "):]), &job); err != nil {
				e.t.Fatalf("%s: %v", line, err)
			}
		case line == "" && name != "":
			return name, job
		case line != "" && line != "retry: 1000":
			e.t.Fatalf("the line %q", line)
		}
	}
	return "", job
}

func (e *events) want(name, state string) api.Job {
	e.t.Helper()
	got, job := e.next()
	if got != name || job.State != state {
		e.t.Fatalf("event %q of a job %q, want %q %q", got, job.State, name, state)
	}
	return job
}

const eventsPath = "/v1/jobs/" + jobID + "/events"

func TestEvents(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	job := d.watched(api.StateQueued)
	stream := d.events(eventsPath, d.key("read"))
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "Access-Control-Allow-Origin": ""} {
		if got := stream.Header.Get(name); stream.StatusCode != 200 || got != want {
			t.Errorf("status %d, %s: %q", stream.StatusCode, name, got)
		}
	}
	if got := stream.want("job", api.StateQueued); string(got.Payload) != `{"html":"<b>"}` || got.ID != jobID {
		t.Errorf("%+v", got)
	}
	job.change(toState(api.StateRunning))
	stream.want("job", api.StateRunning)
	for _, percent := range []float64{10, 20} {
		job.change(func(j *api.Job) { j.Progress = &api.Progress{Percent: &percent} })
		if got := stream.want("job", api.StateRunning); *got.Progress.Percent != percent {
			t.Errorf("%v percent", *got.Progress.Percent)
		}
	}
	job.change(func(j *api.Job) { j.CancelRequested = true })
	if got := stream.want("job", api.StateRunning); !got.CancelRequested {
		t.Error("no cancel")
	}
	job.change(toState(api.StateCompleted))
	stream.want("end", api.StateCompleted)
	stream.want("", "")
	// Core was asked once for each change, and once at the beginning.
	if gets, waits := len(d.core.Requests(hop.GetJob.Path)), len(d.core.Requests(hop.WaitForJob.Path)); gets != 1 || waits != 5 {
		t.Errorf("core read the job %d times, and waited %d times for 5 changes", gets, waits)
	}
	for _, state := range []string{api.StateCompleted, api.StateDeadLetter, api.StateCancelled} {
		job.change(toState(state))
		ended := d.events(eventsPath, d.key("read"))
		ended.want("end", state)
		ended.want("", "")
	}
	job.mu.Lock()
	job.gone = true
	job.mu.Unlock()
	d.do("GET", eventsPath, d.key("read"), "").refused(t, 404, problem.NotFound)
	d.do("GET", "/v1/jobs/nonsense/events", d.key("read"), "").refused(t, 404, problem.NotFound)
}

// A browser opens a stream by a token, of its job alone; HEAD opens none.
func TestEventsToken(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.watched(api.StateQueued)
	made := d.do("POST", "/v1/jobs/"+jobID+"/events-token", d.key("read"), "")
	var token api.EventsToken
	if err := json.Unmarshal(made.body, &token); err != nil || made.status != 200 || token.Token == "" {
		t.Fatalf("%d %s", made.status, made.body)
	}
	if life := time.Until(token.ExpiresAt.Time); life < 50*time.Second || life > time.Minute {
		t.Errorf("it lives for %v", life)
	}
	stream := d.events(eventsPath+"?token="+token.Token, "")
	stream.want("job", api.StateQueued)
	if got := stream.Header.Get("Access-Control-Allow-Origin"); got != "*" {
		t.Errorf("Access-Control-Allow-Origin: %q", got)
	}
	other := strings.Replace(eventsPath, jobID[:8], "deadbeef", 1)
	for what, path := range map[string]string{
		"no token": eventsPath, "another job": other + "?token=" + token.Token, "malformed": eventsPath + "?token=x",
		"another route": "/v1/jobs/" + jobID + "?token=" + token.Token,
	} {
		t.Run(what, func(t *testing.T) { d.do("GET", path, "", "").refused(t, 401, problem.Unauthenticated) })
	}
	d.do("GET", eventsPath, d.key("submit"), "").refused(t, 403, problem.Forbidden)
	if head := d.do("HEAD", eventsPath, d.key("read"), ""); head.status != 200 || head.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %d %v", head.status, head.header)
	}
	if strings.Contains(d.log.String(), token.Token) {
		t.Error("the token is in the log")
	}
}

// A stream that cannot go on says again: after its time, when core or the gateway drains, when the key is revoked and
// when the job is gone.
func TestEventsAgain(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*door, *watchedJob, string){
		"life": func(*door, *watchedJob, string) {},
		"core": func(_ *door, w *watchedJob, _ string) { close(w.cut) },
		"gateway": func(d *door, w *watchedJob, _ string) {
			d.hop.Drain()
			go close(w.cut)
		},
		"key": func(d *door, _ *watchedJob, id string) {
			d.core.RevokeKey(id)
			d.auth.Forget(id)
		},
		"job": func(_ *door, w *watchedJob, _ string) {
			w.change(func(*api.Job) { w.gone = true })
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			life := time.Hour
			if what == "life" {
				life = 100 * time.Millisecond
			}
			d.server.SetStreamTimes(life, time.Hour, time.Minute)
			job := d.watched(api.StateQueued)
			var id string
			stream := d.events(eventsPath, d.keyWith(func(k *hop.KeyRecord) { id, k.Scopes = k.KeyID, []string{api.ScopeRead} }))
			stream.want("job", api.StateQueued)
			end(d, job, id)
			stream.want("again", "")
			stream.want("", "")
		})
	}
}

// While core cannot be asked the stream stays open, with comments, and goes on afterwards; so it does without a place
// to wait.
func TestEventsWithoutCore(t *testing.T) {
	t.Parallel()
	d := newDoorWith(t, cellclient.Limits{Parked: 1}) // for both streams
	d.server.SetStreamTimes(time.Hour, 20*time.Millisecond, time.Minute)
	job := d.watched(api.StateQueued)
	streams := []*events{d.events(eventsPath, d.key("read")), d.events(eventsPath, d.anotherTenantsKey())}
	for _, stream := range streams {
		stream.want("job", api.StateQueued)
	}
	down := func(w http.ResponseWriter, _ *http.Request) { problem.New(problem.CoreUnavailable, "no").Write(w) }
	d.core.Raw(hop.WaitForJob.Path, down)
	d.core.Raw(hop.GetJob.Path, down)
	job.change(func(j *api.Job) { j.Epoch = 1 }) // answers the wait that core has taken
	last := func(stream *events, enough func(string, api.Job) bool) {
		t.Helper()
		for {
			name, got := stream.next()
			if enough(name, got) {
				return
			}
			if name != ":" && name != "job" {
				t.Fatalf("%q of epoch %d", name, got.Epoch)
			}
		}
	}
	for _, stream := range streams {
		last(stream, func(name string, _ api.Job) bool { return name == ":" })
	}
	job.change(func(j *api.Job) { j.Epoch = 2 })
	d.core.Raw(hop.WaitForJob.Path, nil)
	d.core.Raw(hop.GetJob.Path, nil)
	for _, stream := range streams {
		last(stream, func(name string, got api.Job) bool { return name == "job" && got.Epoch == 2 })
	}
}

// A key has a quarter of the places, a tenant half of them; a stream that ends makes room.
func TestEventsCaps(t *testing.T) {
	t.Parallel()
	d := newDoorWith(t, cellclient.Limits{Parked: 8})
	job := d.watched(api.StateQueued)
	keys := []string{d.key("read"), d.key("read"), d.key("read")}
	for i, key := range []string{keys[0], keys[0], keys[1], keys[1]} {
		if got := d.events(eventsPath, key); got.StatusCode != 200 {
			t.Fatalf("stream %d: %d", i, got.StatusCode)
		}
		if i == 1 {
			full := d.do("GET", eventsPath, keys[0], "")
			if p := full.refused(t, 429, problem.RateLimited); full.header.Get("Retry-After") == "" || p.Detail == "" {
				t.Errorf("%+v", full)
			}
		}
	}
	d.do("GET", eventsPath, keys[2], "").refused(t, 429, problem.RateLimited)
	if got := d.events(eventsPath, d.anotherTenantsKey()); got.StatusCode != 200 {
		t.Errorf("another tenant: %d", got.StatusCode)
	}
	job.change(toState(api.StateCompleted))
	eventually(t, "the streams to end", func() bool { return d.openStreams() == 0 })
	if got := d.do("GET", eventsPath, keys[0], ""); got.status != 200 {
		t.Errorf("after the others: %d", got.status)
	}
}

// A client that does not read is cut off, while the job changes all the time: one change at most waits for it.
func TestEventsOfASlowReader(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.server.SetStreamTimes(time.Hour, time.Hour, 300*time.Millisecond)
	job := inState(api.StateRunning)
	job.Payload = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	var waits atomic.Int64
	d.core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, job) })
	d.core.On(hop.WaitForJob.Path, func(coretest.Item) coretest.Result {
		next := job
		next.Epoch = waits.Add(1)
		return coretest.Value(200, next)
	})
	d.events(eventsPath, d.key("read"))
	eventually(t, "the stream to be cut off", func() bool { return waits.Load() > 0 && d.openStreams() == 0 })
	if n := waits.Load(); n > 100 { // what the sockets' buffers hold
		t.Errorf("%d MiB were read for it", n)
	}
}

func (d *door) openStreams() float64 { return d.metric("forgequeue_event_streams")[""] }

func (d *door) anotherTenantsKey() string {
	return d.keyWith(func(k *hop.KeyRecord) {
		k.Tenant, k.Scopes = "01980a5c-0000-7cc0-9d5e-3f2b6a1c0009", []string{api.ScopeRead}
	})
}
