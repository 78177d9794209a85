package coreclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/identity"
)

// reply is an answer read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// attempt sends the body once. sent says whether core may have seen it: false
// only where no connection was to be had, so that a doubt counts as sent.
func (c *Client) attempt(ctx context.Context, path string, body []byte) (_ reply, sent bool, _ error) {
	var connected atomic.Bool
	request, err := c.request(watch(ctx, &connected), path, body)
	if err != nil {
		return reply{}, false, err
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return reply{}, connected.Load(), err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or has failed already
	text, err := io.ReadAll(io.LimitReader(response.Body, api.MaxHopBody+1))
	if err == nil && len(text) > api.MaxHopBody {
		err = fmt.Errorf("%w: more than %d bytes", ErrContract, api.MaxHopBody)
	}
	if err != nil {
		return reply{}, true, fmt.Errorf("read core's answer: %w", err)
	}
	return reply{response.StatusCode, response.Header, text}, true, nil
}

// request has the headers that are set here and no others: nothing that a client
// sends can become a header of the hop.
func (c *Client) request(ctx context.Context, path string, body []byte) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	at := c.now().Add(time.Duration(c.offset.Load()))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "forgequeue-gateway")
	request.Header.Set(identity.Header, identity.Sign(c.secret, http.MethodPost, path, body, at))
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline).Milliseconds(), 1)
		request.Header.Set(TimeoutHeader, strconv.FormatInt(left, 10))
	}
	return request, nil
}

// watch notes whether the request got a connection. The transport itself tries
// again when a kept connection turns out to be closed and nothing was written to
// it; only the last of its tries counts.
func watch(ctx context.Context, connected *atomic.Bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { connected.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
}

// learnClock takes core's clock from a refusal for the time, and says whether
// that is what the reply was. Core checks the signature first, so only a core
// that knows our secret says this.
func (c *Client) learnClock(from reply) bool {
	if !saysExpired(from.body) {
		return false
	}
	micros, err := strconv.ParseInt(from.header.Get(identity.TimeHeader), 10, 64)
	if err != nil {
		return false
	}
	offset := time.UnixMicro(micros).Sub(c.now())
	c.offset.Store(int64(offset))
	c.logger.Warn("core's clock differs from ours; signing with core's time", "offset_ms", offset.Milliseconds())
	return true
}
