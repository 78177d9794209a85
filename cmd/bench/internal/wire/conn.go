package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	dialTime = 5 * time.Second
	// answerTime is how long an answer may take beyond the wait that was asked for.
	answerTime = 40 * time.Second
	// maxAnswer bytes hold a claim of a thousand jobs of some kilobytes each.
	maxAnswer = 64 << 20
	// readBuffer bytes: a claim of a hundred small jobs in one read.
	readBuffer = 64 << 10
)

// conn is one connection of one sender, without pipelining. net/http's client would hand every request to
// two goroutines of the connection; on a machine that the services share, that would be most of the CPU time
// of a request.
type conn struct {
	base   *url.URL
	raw    net.Conn
	reader *bufio.Reader
	body   bytes.Buffer
	unbind func() bool
}

// reply is an answer read whole; its body is valid until the next exchange.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (c *conn) close() {
	if c.raw != nil {
		c.unbind()
		_ = c.raw.Close()
		c.raw = nil
	}
}

// open dials unless there is a connection. The end of ctx ends the connection, a read in progress included.
func (c *conn) open(ctx context.Context) error {
	if c.raw != nil {
		return nil
	}
	port := c.base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[c.base.Scheme]
	}
	address := net.JoinHostPort(c.base.Hostname(), port)
	dialer := &net.Dialer{Timeout: dialTime}
	var raw net.Conn
	var err error
	if c.base.Scheme == "https" {
		raw, err = (&tls.Dialer{NetDialer: dialer, Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", address)
	} else {
		raw, err = dialer.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return err
	}
	c.raw, c.reader = raw, bufio.NewReaderSize(raw, readBuffer)
	c.unbind = context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	return nil
}

// exchange sends a request, complete with its headers, and reads the answer.
func (c *conn) exchange(ctx context.Context, request []byte, wait time.Duration) (reply, error) {
	if err := c.open(ctx); err != nil {
		return reply{}, err
	}
	answer, err := c.transfer(ctx, request, wait)
	if err != nil {
		c.close()
	}
	return answer, err
}

func (c *conn) transfer(ctx context.Context, request []byte, wait time.Duration) (reply, error) {
	if err := c.raw.SetDeadline(time.Now().Add(wait + answerTime)); err != nil {
		return reply{}, err
	}
	if err := ctx.Err(); err != nil { // it may have ended just before the deadline was moved
		return reply{}, err
	}
	if _, err := c.raw.Write(request); err != nil {
		return reply{}, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = response.Body.Close() }() // read to its end below
	c.body.Reset()
	if _, err := c.body.ReadFrom(io.LimitReader(response.Body, maxAnswer+1)); err != nil {
		return reply{}, err
	}
	if c.body.Len() > maxAnswer {
		return reply{}, fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	if response.Close {
		defer c.close()
	}
	return reply{response.StatusCode, response.Header, c.body.Bytes()}, nil
}
