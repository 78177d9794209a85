// Package nats publishes to NATS JetStream.
package nats

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/shared/api"
)

// connection is a connection to a server of NATS. It is not made again by the library, and the addresses that the server
// names are not used.
type connection struct {
	conn   *nats.Conn
	stream jetstream.JetStream
	guard  *guard
}

// Protocol is that of NATS, for a main to register.
func Protocol() broker.Protocol {
	return broker.Protocol{Schemes: []string{api.SchemeNATS, api.SchemeNATSTLS}, Open: open}
}

func open(ctx context.Context, dial broker.Dial, secure *outbound.Dialer, t *broker.Target) (broker.Connection, error) {
	guard := &guard{Allowance: broker.NewAllowance()}
	greeted := &dialer{ctx: ctx, dial: dial, secure: secure, target: t, guard: guard}
	options := []nats.Option{
		nats.SetCustomDialer(greeted), nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.Timeout(broker.OpenTime), nats.Name("ForgeQueue"),
		nats.PingInterval(20 * time.Second), nats.MaxPingsOutstanding(2), nats.NoCallbacksAfterClientClose(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the error of a message is that of its publish
	}
	switch {
	case t.User != "" && t.Password != "":
		options = append(options, nats.UserInfo(t.User, t.Password))
	case t.User != "":
		options = append(options, nats.Token(t.User))
	}
	conn, err := nats.Connect("nats://"+net.JoinHostPort(t.Broker.URL.Hostname(), outbound.Port(t.Broker.URL)), options...)
	if err != nil {
		return nil, greeted.failed(ctx, err)
	}
	stream, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, broker.Lost()
	}
	return &connection{conn: conn, stream: stream, guard: guard}, nil
}

// dialer reads the server's greeting, which is not encrypted, and makes the connection over TLS: the guard is to
// see what the library gets.
type dialer struct {
	ctx    context.Context //nolint:containedctx // the library's dial has none
	dial   broker.Dial
	secure *outbound.Dialer
	target *broker.Target
	guard  *guard
	// err is why there is no connection.
	err error
}

// SkipTLSHandshake tells the library that it is done.
func (d *dialer) SkipTLSHandshake() bool { return true }

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(_, _ string) (net.Conn, error) {
	var conn net.Conn
	conn, d.err = d.greet()
	return conn, d.err
}

func (d *dialer) greet() (net.Conn, error) {
	u := d.target.Broker.URL
	overTLS := u.Scheme == api.SchemeNATSTLS
	made, err := d.dial(d.ctx, u.Hostname(), outbound.Port(u), broker.SecurityOf(overTLS, broker.TLSLater))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(d.ctx, func() { _ = made.Close() })
	defer stop()
	greeting, err := readGreeting(made)
	if err == nil && overTLS {
		err = d.encrypt(made, greeting)
	}
	if err != nil {
		_ = made.Close()
		return nil, err
	}
	made.Inspect = d.guard.inspect
	return &greetedConn{Socket: made, left: greeting}, nil
}

// readGreeting reads the INFO line, and not a byte more.
func readGreeting(from io.Reader) ([]byte, error) {
	var line []byte
	var one [1]byte
	for one[0] != '\n' {
		if _, err := io.ReadFull(from, one[:]); err != nil {
			return nil, broker.Lost()
		}
		if line = append(line, one[0]); len(line) > maxNATSLine {
			return nil, notNATS()
		}
	}
	if !strings.HasPrefix(string(line), "INFO ") {
		return nil, notNATS()
	}
	return line, nil
}

func notNATS() *broker.RefusalError {
	return &broker.RefusalError{Kind: broker.KindRefused, Message: "the destination does not speak NATS as a server does"}
}

func (d *dialer) encrypt(made *broker.Socket, greeting []byte) error {
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	if err := json.Unmarshal(greeting[len("INFO "):], &info); err != nil {
		return notNATS()
	}
	if !info.Required && !info.Available {
		return &broker.RefusalError{Kind: broker.KindTLS, Message: "the server does not offer TLS"}
	}
	encrypted, err := d.secure.TLS(d.ctx, made.Conn, d.target.Broker.URL.Hostname())
	if err != nil {
		return err
	}
	made.Conn = encrypted
	return nil
}

// greetedConn gives the greeting to the library first.
type greetedConn struct {
	*broker.Socket
	left []byte
}

func (c *greetedConn) Read(into []byte) (int, error) {
	if len(c.left) == 0 {
		return c.Socket.Read(into)
	}
	n := copy(into, c.left)
	c.left = c.left[n:]
	return n, nil
}

func (d *dialer) failed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil || errors.Is(err, nats.ErrTimeout):
		return &broker.RefusalError{Kind: "timeout", Message: "the broker did not take the connection in time"}
	case d.err != nil:
		return d.err
	case errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAccountAuthExpired) ||
		strings.Contains(strings.ToLower(err.Error()), "authorization"):
		return broker.Unauthenticated("")
	case errors.Is(err, broker.ErrGuard):
		return notNATS()
	}
	return broker.Lost()
}

func (c *connection) Publish(ctx context.Context, to *api.Broker, m *broker.Message) error {
	message := nats.NewMsg(to.Subject)
	message.Data = m.Body
	for _, h := range m.Headers {
		message.Header[h.Name] = []string{h.Value}
	}
	c.guard.Sent(m)
	_, err := c.stream.PublishMsg(ctx, message, jetstream.WithMsgID(m.Once), jetstream.WithRetryAttempts(0))
	var told *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrInvalidJSAck):
		return &broker.RefusalError{Kind: broker.KindMissing, Message: "no stream takes this subject, or JetStream is off", Healthy: true}
	case errors.Is(err, nats.ErrMaxPayload):
		return broker.TooLarge()
	case errors.Is(err, nats.ErrHeadersNotSupported) || errors.Is(err, nats.ErrBadHeaderMsg):
		return &broker.RefusalError{Kind: broker.KindRefused, Message: "the server does not take headers; NATS 2.2 or later does"}
	case errors.As(err, &told):
		return &broker.RefusalError{Kind: broker.KindNotConfirmed, Message: "the stream could not take the message", Detail: broker.Detail(told.Description)}
	case errors.Is(err, nats.ErrPermissionViolation):
		return broker.AccessRefused("")
	}
	return broker.Lost()
}

func (c *connection) Usable() bool { return !c.conn.IsClosed() }

func (c *connection) Close() { c.conn.Close() }
