package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	mathrand "math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// eventsQuiet is how long a stream may be without a byte: the server sends a comment every 15 s.
	eventsQuiet = 45 * time.Second
	// eventsPause is the longest wait before a stream that ended is opened again.
	eventsPause = time.Second

	mediaEvents = "text/event-stream"

	// afterAllOutput is a place after any piece of output: a stream from there on has none.
	afterAllOutput = "9223372036854775807.0"
)

// errStreamBroke is for a stream that ended without a word of the server.
var errStreamBroke = errors.New("the stream of events broke off")

// Events follows a job by the server's stream of events: the sequence has the job as
// it is at once, and again after each change of its state, attempt, progress or output, until
// it has ended. Changes that follow each other fast may be one; the end is never left
// out. A sequence without an error ends with the job in its last state.
//
// A stream that the server ends, and a connection that is lost, are opened again, from
// the first event on for as long as it takes: give ctx a deadline. An error is the last
// of the sequence: ctx's, or a refusal such as not_found; rate_limited says that the
// tenant or key has too many streams open (Wait needs none).
func (c *Client) Events(ctx context.Context, id string) iter.Seq2[api.Job, error] {
	return func(yield func(api.Job, error) bool) {
		for event, err := range c.Follow(ctx, id, afterAllOutput) {
			if err != nil {
				yield(api.Job{}, err)
			} else if event.Job != nil && !yield(*event.Job, nil) {
				return
			}
		}
	}
}

// Event is one of a job's: the job, or a piece of its output. The other one is nil.
type Event struct {
	Job    *api.Job
	Output *api.Output
}

// Follow is Events with the job's output in it, the oldest first, and all of it before the
// job in its last state. after is the ID of the last piece that is known, and empty for all.
// No piece is lost or comes twice where a stream is opened again; Gap says where output is no
// longer kept.
func (c *Client) Follow(ctx context.Context, id, after string) iter.Seq2[Event, error] {
	one := call{method: http.MethodGet, path: []string{"v1", "jobs", id, "events"}, repeatable: true, accept: mediaEvents}
	return func(yield func(Event, error) bool) {
		target, err := c.target(one)
		if err != nil {
			yield(Event{}, err)
			return
		}
		c.budget.earn()
		f := &follower{client: c, call: one, target: target, yield: yield}
		f.call.lastEventID = after
		if err := f.follow(ctx); err != nil && !f.over {
			yield(Event{}, fmt.Errorf("%s %s: %w", one.method, target.Path, err))
		}
	}
}

// follower reads the streams of one job, one after the other.
type follower struct {
	client *Client
	call   call
	target *url.URL
	yield  func(Event, error) bool
	// version is that of the job that was given last; empty before the first.
	version string
	// given says that something was given.
	given bool
	// over says that the job has ended, or the caller wants no more.
	over bool
}

// follow opens streams until the job has ended. Before the first event it gives up like other calls.
func (f *follower) follow(ctx context.Context) error {
	for tries := 1; ; tries++ {
		first := !f.given
		opened, err := f.stream(ctx)
		if f.over {
			return nil
		}
		if opened {
			tries = 0
		}
		var pause time.Duration
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errTooLarge):
			return err
		case opened:
			pause = mathrand.N(eventsPause) //nolint:gosec // spreads load, guards nothing
		case first:
			next, again := f.client.nextTry(ctx, f.call, tries, err)
			if !again {
				return err
			}
			pause = next
		case !retryable(f.call, err):
			return err
		default:
			pause = pauseAfter(tries, err)
		}
		f.client.logger.DebugContext(ctx, "the stream of a job's events is opened again", "call", f.target.Path, "wait_ms", pause.Milliseconds(), "error", err)
		if err := wait.For(ctx, pause); err != nil {
			return err
		}
	}
}

// stream reads one stream to its end. opened says that it had an event.
func (f *follower) stream(ctx context.Context) (opened bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(eventsQuiet, func() { cancel(fmt.Errorf("%w within %v", errNoAnswer, eventsQuiet)) })
	defer quiet.Stop()
	defer func() {
		// Not Canceled: that would tell the caller that its own context is over.
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, errNoAnswer) {
			err = cause
		}
	}()
	response, err := f.client.send(ctx, f.target.String(), nil, f.call)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }() // its end is not waited for
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode != http.StatusOK || media != mediaEvents {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // an unfinished one says less
		return false, refusal(response.StatusCode, response.Header, body)
	}
	events := newEventReader(response.Body, func() { quiet.Reset(eventsQuiet) })
	for {
		name, data, err := events.next()
		if err != nil {
			return opened, err
		}
		done, err := f.take(name, data)
		if err != nil || done {
			return opened || done, err
		}
		opened = opened || f.given
	}
}

// take gives an event to the caller. done says that nothing follows it on this stream.
func (f *follower) take(name string, data []byte) (done bool, err error) {
	switch name {
	case "again":
		return true, nil
	case "output":
		err := f.takeOutput(data)
		return f.over, err
	case "job", "end":
	default:
		return false, nil // of a later version of the API
	}
	var job api.Job
	if err := json.Unmarshal(data, &job); err != nil {
		return false, fmt.Errorf("an event cannot be read: %w", err)
	}
	version := job.Version()
	if version != f.version || name == "end" {
		f.version, f.given = version, true
		f.over = !f.yield(Event{Job: &job}, nil)
	}
	f.over = f.over || name == "end"
	return f.over, nil
}

// takeOutput gives a piece of output to the caller, unless it was there: a stream that is opened again continues after it.
func (f *follower) takeOutput(data []byte) error {
	var piece api.Output
	if err := json.Unmarshal(data, &piece); err != nil {
		return fmt.Errorf("an event cannot be read: %w", err)
	}
	if !isAfter(piece.ID, f.call.lastEventID) {
		return nil
	}
	f.call.lastEventID, f.given = piece.ID, true
	f.over = !f.yield(Event{Output: &piece}, nil)
	return nil
}

// isAfter says whether a piece of output comes after the last one that is known.
func isAfter(id, last string) bool {
	a, ok := api.ParseOutputPlace(id)
	b, known := api.ParseOutputPlace(last)
	return ok && (!known || a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Seq > b.Seq)
}

// eventReader reads Server-Sent Events (WHATWG HTML, 9.2.6): of their fields event and data. An event
// has at most maxAnswer bytes.
type eventReader struct {
	lines *bufio.Scanner
	alive func()
}

// newEventReader calls alive at each line, comments among them.
func newEventReader(from io.Reader, alive func()) *eventReader {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 4096), maxAnswer)
	return &eventReader{lines, alive}
}

func (r *eventReader) next() (name string, data []byte, err error) {
	for r.lines.Scan() {
		r.alive()
		line := r.lines.Bytes()
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && (name != "" || len(data) > 0):
			return name, data, nil
		case len(data)+len(value) > maxAnswer:
			return "", nil, errTooLarge
		case string(field) == "event":
			name = string(value)
		case string(field) == "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return "", nil, errTooLarge
	case err != nil:
		return "", nil, fmt.Errorf("%w: %w", errStreamBroke, err)
	}
	return "", nil, errStreamBroke
}
