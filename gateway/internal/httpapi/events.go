package httpapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/jobevents"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// streamTimes are how long event streams take.
type streamTimes struct {
	// life is the longest; it is shortened by up to a sixteenth, so that streams that began together do not end together.
	life time.Duration
	// quiet is the time between two comments.
	quiet time.Duration
	// write is how long a client may take to read an event.
	write time.Duration
}

func usualStreamTimes() streamTimes {
	return streamTimes{life: 15 * time.Minute, quiet: 15 * time.Second, write: 10 * time.Second}
}

// streams bound the event streams that are open, by tenant and by key.
type streams struct {
	mostOfTenant, mostOfKey int
	times                   streamTimes

	mu       sync.Mutex
	byTenant map[string]int
	byKey    map[string]int
}

// newStreams gives one tenant half of the places that calls have to wait in core, and one key a quarter.
func newStreams(parked int, registry prometheus.Registerer) *streams {
	s := &streams{
		mostOfTenant: max(parked/2, 1), mostOfKey: max(parked/4, 1), times: usualStreamTimes(),
		byTenant: map[string]int{}, byKey: map[string]int{},
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "forgequeue_event_streams",
		Help: "Event streams of jobs, and exports, that are open now.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		open := 0
		for _, n := range s.byTenant {
			open += n
		}
		return float64(open)
	}))
	return s
}

// enter counts a stream; it must leave. A problem where there are too many.
func (s *streams) enter(tenant, key string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tooMany := func(whose string, most int) error {
		detail := fmt.Sprintf("The %s has %d streams of events, or exports, open on this gateway, which is the maximum; close one, or read the jobs.", whose, most)
		return problem.New(problem.RateLimited, detail).WithRetryAfter(retryAfter())
	}
	switch {
	case s.byTenant[tenant] >= s.mostOfTenant:
		return nil, tooMany("tenant", s.mostOfTenant)
	case s.byKey[key] >= s.mostOfKey:
		return nil, tooMany("key", s.mostOfKey)
	}
	s.byTenant[tenant]++
	s.byKey[key]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		leaveOne(s.byTenant, tenant)
		leaveOne(s.byKey, key)
	}, nil
}

func leaveOne(counts map[string]int, name string) {
	if counts[name]--; counts[name] == 0 {
		delete(counts, name)
	}
}

// jobEvents answers GET /v1/jobs/{id}/events.
func jobEvents(s *Server, g *gin.Context, r route) {
	c, err := s.admit(g, r)
	if err != nil {
		refuse(g, err)
		return
	}
	leave, err := s.streams.enter(c.Principal().Tenant, c.Principal().KeyID)
	if err != nil {
		refuse(g, err)
		return
	}
	defer leave()
	followed, err := s.handlers.StreamEvents(g.Request.Context(), c)
	if err != nil {
		refuse(g, err)
		return
	}
	header := g.Writer.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx passes each event on at once
	if c.Query.Has("token") {
		header.Set("Access-Control-Allow-Origin", "*") // the token is the only credential that a page can have
	}
	showLimits(c, header)
	g.Writer.WriteHeader(http.StatusOK)
	g.Writer.WriteHeaderNow()
	if g.Request.Method != http.MethodHead {
		s.stream(g, c, followed)
	}
}

// stream writes events until the job has ended, the stream is over or its client has left.
func (s *Server) stream(g *gin.Context, c *call.Call, followed *jobevents.Stream) {
	times := s.streams.times
	to := eventWriter{to: g.Writer, control: http.NewResponseController(g.Writer), writeTimeout: times.write}
	to.write([]byte("retry: 1000\n\n")) // in milliseconds, for EventSource
	ctx, stop := context.WithCancel(g.Request.Context())
	changes := followed.Changes(ctx)
	defer func() {
		stop()
		for range changes { // its end
		}
	}()
	said := outputSaid{}
	said.OutputPlace, _ = api.ParseOutputPlace(g.GetHeader("Last-Event-ID"))
	life := time.NewTimer(times.life - rand.N(times.life/16)) //nolint:gosec // jitter needs no secrecy
	defer life.Stop()
	quiet := time.NewTicker(times.quiet)
	defer quiet.Stop()
	for !to.failed {
		select {
		case <-g.Request.Context().Done():
			return
		case <-life.C:
			to.event("again", []byte("{}"))
			return
		case <-quiet.C:
			to.write([]byte(":\n\n"))
		case event, open := <-changes:
			if open && said.before(event.Output) && !s.streamOutput(g.Request.Context(), c, &to, &said) {
				open = false // it begins again after what was written
			}
			switch {
			case !open:
				to.event("again", []byte("{}"))
				return
			case event.Ended:
				to.event("end", event.Job)
				return
			}
			to.event("job", event.Job)
		}
	}
}

// outputSaid is how far a stream has written its job's output.
type outputSaid struct{ api.OutputPlace }

func (s outputSaid) before(place api.OutputPlace) bool {
	return s.Epoch < place.Epoch || s.Epoch == place.Epoch && s.Seq < place.Seq
}

// streamOutput writes what a job has said after what was written. It is false where core does not give it.
func (s *Server) streamOutput(ctx context.Context, c *call.Call, to *eventWriter, said *outputSaid) bool {
	id, err := c.ID()
	for more := true; more && err == nil && !to.failed; {
		var page api.OutputPage
		if page, err = s.handlers.OutputAfter(ctx, c, id, said.OutputPlace); err != nil {
			break
		}
		more = page.More
		for i := range page.Items {
			text, err := call.Encode(&page.Items[i])
			if err != nil {
				return false
			}
			to.write([]byte("event: output\nid: "+page.Items[i].ID+"\ndata: "), text, []byte("\n\n"))
			said.OutputPlace, _ = api.ParseOutputPlace(page.Items[i].ID)
		}
	}
	return err == nil
}

// eventWriter writes events to a client, until one cannot be written in time.
type eventWriter struct {
	to           http.ResponseWriter
	control      *http.ResponseController
	writeTimeout time.Duration
	failed       bool
}

// event writes JSON as the data of an event. Encode leaves no line break in it. The data may be large, and other streams
// write the same: it is not copied.
func (w *eventWriter) event(name string, data []byte) {
	w.write([]byte("event: "+name+"\ndata: "), data, []byte("\n\n"))
}

func (w *eventWriter) write(parts ...[]byte) {
	err := w.control.SetWriteDeadline(time.Now().Add(w.writeTimeout))
	for _, part := range parts {
		if err == nil {
			_, err = w.to.Write(part)
		}
	}
	if err == nil {
		err = w.control.Flush()
	}
	w.failed = w.failed || err != nil
}
