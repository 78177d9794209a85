package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// tryTimeout bounds one try. It is above api.MaxWait, for which a gateway may
	// hold a request whose Idempotency-Key is still in flight.
	tryTimeout = 30 * time.Second
	// maxAnswer bounds an answer in bytes: a batch of a thousand refusals fits, and so does the largest claim, of
	// api.MaxClaimBytes and the names and ids of a thousand jobs.
	maxAnswer = 16 << 20
)

var (
	errNoAnswer = errors.New("no answer")
	errTooLarge = errors.New("the answer is too large")
)

// call is one request to the API; it may take several tries.
type call struct {
	method string
	// path is the route in unescaped segments, so that an id cannot change the route.
	path  []string
	query url.Values
	// body is sent as JSON; nil sends none.
	body any
	// answer is where a 2xx body is decoded to; nil discards it.
	answer any
	// got receives the status and header of a successful answer; nil discards them.
	got *received
	// key is the Idempotency-Key; empty sends none.
	key string
	// correlationID and traceparent are the headers of these names (traceparent: W3C
	// Trace Context); empty sends none.
	correlationID string
	traceparent   string
	// prefer is the Prefer header (RFC 7240); empty sends none.
	prefer string
	// accept is a media type that is asked for instead of JSON; empty is JSON.
	accept string
	// lastEventID is the header Last-Event-ID; empty sends none.
	lastEventID string
	// ifNoneMatch is the header of that name; empty sends none. With it a 304 is a
	// good answer, which leaves answer as it is.
	ifNoneMatch string
	// ifMatch is the header of that name; empty sends none.
	ifMatch string
	// alsoDecode is a status that is an error, and whose body is decoded to answer
	// all the same, if it can be; 0 is none.
	alsoDecode int
	// repeatable says that the server answers a repeat like the first.
	repeatable bool
	// oneTry says that the caller repeats the call by itself.
	oneTry bool
	// timeout bounds one try; tryTimeout if 0.
	timeout time.Duration
	// maxAnswer bounds the answer in bytes; the constant if 0.
	maxAnswer int64
}

// received is an answer without its body.
type received struct {
	status int
	header http.Header
}

// do makes the call, with retries. Errors are wrapped with method and route.
func (c *Client) do(ctx context.Context, one call) error {
	target, err := c.target(one)
	if err != nil {
		return err
	}
	name := one.method + " " + target.Path
	body, err := encode(one.body)
	if err != nil {
		return fmt.Errorf("%s: the request cannot be written as JSON: %w", name, err)
	}
	c.budget.earn()
	for tries := 1; ; tries++ {
		err := c.try(ctx, target.String(), body, one)
		if err == nil {
			return nil
		}
		pause, again := c.nextTry(ctx, one, tries, err)
		if !again {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.logger.WarnContext(ctx, "call is tried again", "call", name, "tries", tries, "wait_ms", pause.Milliseconds(), "error", err.Error())
		if stopped := wait.For(ctx, pause); stopped != nil {
			return fmt.Errorf("%s: %w; the last try: %w", name, stopped, err)
		}
	}
}

// ErrInvalidID says that an id or name can be none, such as "..": nothing was sent.
var ErrInvalidID = errors.New("client: this cannot be an id")

// target is the URL of a call. An empty segment is refused: "/v1/jobs//complete"
// would be another route, or none.
func (c *Client) target(one call) (*url.URL, error) {
	path := ""
	for _, segment := range one.path {
		if segment == "" || segment == "." || segment == ".." {
			return nil, fmt.Errorf("%w: %q", ErrInvalidID, segment)
		}
		path += "/" + url.PathEscape(segment)
	}
	target, err := url.Parse(c.base.String() + path)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	target.RawQuery = one.query.Encode()
	return target, nil
}

// encode does not escape <, > and &: an escaped payload could exceed its limit, and
// would not be returned as it was given.
func encode(body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// try sends the request once and reads its answer whole.
func (c *Client) try(ctx context.Context, target string, body []byte, one call) error {
	timeout := one.timeout
	if timeout == 0 {
		timeout = tryTimeout
	}
	tryCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, header, answer, err := c.exchange(tryCtx, target, body, one)
	switch {
	case err == nil && (status >= 200 && status <= 299 || one.unchanged(status)):
		if one.got != nil {
			*one.got = received{status, header}
		}
		if one.unchanged(status) {
			return nil
		}
		return decode(status, answer, one.answer)
	case err == nil:
		if status == one.alsoDecode {
			_ = json.Unmarshal(answer, one.answer) // if it fails, the status error is enough
		}
		return refusal(status, header, answer)
	case tryCtx.Err() != nil && ctx.Err() == nil:
		// Not DeadlineExceeded: that would tell the caller that ctx is over.
		return fmt.Errorf("%w within %v", errNoAnswer, timeout)
	default:
		return err
	}
}

func (c *Client) exchange(ctx context.Context, target string, body []byte, one call) (int, http.Header, []byte, error) {
	response, err := c.send(ctx, target, body, one)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = response.Body.Close() }() // read to its end, or given up
	limit := one.maxAnswer
	if limit == 0 {
		limit = maxAnswer
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("the answer (status %d) broke off: %w", response.StatusCode, err)
	}
	if int64(len(answer)) > limit {
		return 0, nil, nil, fmt.Errorf("%w: status %d, more than %d bytes", errTooLarge, response.StatusCode, limit)
	}
	return response.StatusCode, response.Header, answer, nil
}

// send sends the request once; the caller reads the answer's body, and closes it.
func (c *Client) send(ctx context.Context, target string, body []byte, one call) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, one.method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	c.headers(request, body, one)
	response, err := c.http.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the call names method and route already
		}
		if _, noTLS := errors.AsType[tls.RecordHeaderError](err); noTLS || errors.Is(err, http.ErrSchemeMismatch) {
			err = fmt.Errorf("the server at %s does not speak TLS: use http:// in the URL: %w", c.base.Host, err)
		}
		return nil, err
	}
	return response, nil
}

func (c *Client) headers(request *http.Request, body []byte, one call) {
	header := request.Header
	header.Set("Authorization", "Bearer "+c.apiKey)
	header.Set("Accept", "application/json, application/problem+json")
	if one.accept != "" {
		header.Set("Accept", one.accept+", application/problem+json")
	}
	header.Set("User-Agent", "forgequeue-go")
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	if one.key != "" {
		header.Set("Idempotency-Key", one.key)
	}
	if one.correlationID != "" {
		header.Set("X-Correlation-Id", one.correlationID)
	}
	if one.traceparent != "" {
		header.Set("Traceparent", one.traceparent)
	}
	if one.prefer != "" {
		header.Set("Prefer", one.prefer)
	}
	if one.lastEventID != "" {
		header.Set("Last-Event-ID", one.lastEventID)
	}
	if one.ifNoneMatch != "" {
		header.Set("If-None-Match", one.ifNoneMatch)
	}
	if one.ifMatch != "" {
		header.Set("If-Match", one.ifMatch)
	}
}

// unchanged says that the caller's copy is current (304).
func (one *call) unchanged(status int) bool {
	return status == http.StatusNotModified && one.ifNoneMatch != ""
}

func decode(status int, answer []byte, into any) error {
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return &StatusError{Status: status, Body: excerpt(answer), cause: err}
	}
	return nil
}
