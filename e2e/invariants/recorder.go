package invariants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing/iotest"
	"time"

	"github.com/forgequeue/forgequeue/e2e/contract"
)

// Mark makes a mark: a text that names its tenant and occurs in one job only.
func Mark(tenant string, n any) string { return fmt.Sprintf("fqmark.%s.%v", tenant, n) }

var marks = regexp.MustCompile(`fqmark\.([0-9a-f-]{36})\.[A-Za-z0-9_-]+`)

// Recorder notes what clients of one process send and get. Many goroutines may
// use it.
type Recorder struct {
	actor string
	seq   atomic.Int64

	mu     sync.Mutex
	events [][]Event // as they were added: one long list would be copied as it grows
	file   *os.File
	err    error
}

// NewRecorder keeps events in memory. No two actors of a run have one name.
func NewRecorder(actor string) *Recorder { return &Recorder{actor: actor} }

// OpenRecorder writes events to a file, each with one write, so that what was
// noted survives a kill of this process.
func OpenRecorder(actor, name string) (*Recorder, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Recorder{actor: actor, file: file}, nil
}

// Close closes the file and says whether all events are in it.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	if err := r.file.Close(); err != nil && r.err == nil {
		r.err = err
	}
	return r.err
}

// Events gives what was noted so far, in memory.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.events...)
}

// Note adds an event that is no request.
func (r *Recorder) Note(e Event) {
	e.Actor, e.Seq, e.Sent = r.actor, r.seq.Add(1), time.Now()
	r.add([]Event{e})
}

func (r *Recorder) add(events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		r.events = append(r.events, slices.Clone(events))
		return
	}
	var lines []byte
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			r.err = err
			return
		}
		lines = append(append(lines, line...), '\n')
	}
	if _, err := r.file.Write(lines); err != nil && r.err == nil {
		r.err = err
	}
}

// Client gives an HTTP client for one tenant's key; all that it does is noted, and
// held to the document of the API where this process runs tests. An
// empty tenant stands for a platform key, which may see every tenant's marks.
func (r *Recorder) Client(tenant string, base http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     &transport{recorder: r, tenant: tenant, base: contract.Transport(base)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// BriefClient is Client for floods: a request is noted when it was answered, or got no
// answer, and not at all where it was surely refused.
func (r *Recorder) BriefClient(tenant string, base http.RoundTripper) *http.Client {
	c := r.Client(tenant, base)
	c.Transport = &transport{recorder: r, tenant: tenant, base: base, brief: true}
	return c
}

type transport struct {
	recorder *Recorder
	tenant   string
	base     http.RoundTripper
	// brief leaves out what a flood would fill the memory with.
	brief bool
}

// RoundTrip notes the request before it is sent and the answer before it is used.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(request.Body)
		_ = request.Body.Close()
		if err != nil {
			return nil, err
		}
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(body))
		// Without it net/http cannot repeat a keyed request behind our back.
		request.GetBody = nil
	}
	seq, now := t.recorder.seq.Add(1), time.Now()
	sent := func() []Event {
		events := asked(request, body)
		for i := range events {
			events[i].Actor, events[i].Seq, events[i].Index = t.recorder.actor, seq, i
			events[i].Tenant, events[i].Sent = t.tenant, now
		}
		return events
	}
	if t.brief {
		return t.roundTripBriefly(request, sent)
	}
	events := sent()
	if mayChange(events) {
		t.recorder.add(events)
	}
	response, answer, err := t.exchange(request)
	if err == nil {
		t.note(events, response, answer)
	}
	return response, bodyless(response, err)
}

// mayChange says that the request may change something unseen.
func mayChange(events []Event) bool {
	switch events[0].Op {
	case OpSubmit, OpOutcome, OpCancel:
		return true
	}
	return false
}

// roundTripBriefly looks at the request only when it has to be noted.
func (t *transport) roundTripBriefly(request *http.Request, sent func() []Event) (*http.Response, error) {
	response, answer, err := t.exchange(request)
	switch {
	case err != nil:
		if events := sent(); mayChange(events) {
			t.recorder.add(events)
		}
	case !refuses(response, answer):
		t.note(sent(), response, answer)
	}
	return response, bodyless(response, err)
}

// refuses says that an answer leaves no doubt that nothing happened.
func refuses(response *http.Response, answer []byte) bool {
	told := answered([]Event{{Op: OpOther}}, response, answer)
	return told[0].Refused()
}

// bodyless is the error of a round trip that had no answer at all.
func bodyless(response *http.Response, err error) error {
	if response != nil {
		return nil
	}
	return err
}

// exchange makes the request and reads the answer. Where that ends half way, the
// caller learns it as it would have.
func (t *transport) exchange(request *http.Request) (*http.Response, []byte, error) {
	response, err := t.base.RoundTrip(request)
	if err != nil {
		return nil, nil, err
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(answer), iotest.ErrReader(err)))
		return response, nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	return response, answer, nil
}

// note notes an answer.
func (t *transport) note(events []Event, response *http.Response, answer []byte) {
	events = answered(events, response, answer)
	done := time.Now()
	for i := range events {
		events[i].Done = done
	}
	events[0].Foreign = t.foreign(response.Header, answer)
	t.recorder.add(events)
}

// foreign finds other tenants' marks in an answer.
func (t *transport) foreign(header http.Header, answer []byte) []string {
	if t.tenant == "" {
		return nil
	}
	var found []string
	look := func(text []byte) {
		for _, match := range marks.FindAllSubmatch(text, -1) {
			if string(match[1]) != t.tenant {
				found = append(found, string(match[0]))
			}
		}
	}
	look(answer)
	for _, values := range header {
		for _, value := range values {
			look([]byte(value))
		}
	}
	return found
}
