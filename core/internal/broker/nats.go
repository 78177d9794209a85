package broker

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

	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/shared/api"
)

// natsConn is a connection to a server of NATS. It is not made again by the library, and the addresses that the server
// names are not used.
type natsConn struct {
	conn   *nats.Conn
	stream jetstream.JetStream
	guard  *natsGuard
}

func openNATS(ctx context.Context, dial dialFunc, secure *outbound.Dialer, t *Target) (connection, error) {
	guard := &natsGuard{allowance: newAllowance()}
	greeted := &natsDialer{ctx: ctx, dial: dial, secure: secure, target: t, guard: guard}
	options := []nats.Option{
		nats.SetCustomDialer(greeted), nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.Timeout(openTime), nats.Name("ForgeQueue"),
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
		return nil, lost()
	}
	return &natsConn{conn: conn, stream: stream, guard: guard}, nil
}

// natsDialer reads the server's greeting, which is not encrypted, and makes the connection over TLS: the guard is to
// see what the library gets.
type natsDialer struct {
	ctx    context.Context //nolint:containedctx // the library's dial has none
	dial   dialFunc
	secure *outbound.Dialer
	target *Target
	guard  *natsGuard
	// err is why there is no connection.
	err error
}

// SkipTLSHandshake tells the library that it is done.
func (d *natsDialer) SkipTLSHandshake() bool { return true }

// Dial implements nats.CustomDialer.
func (d *natsDialer) Dial(_, _ string) (net.Conn, error) {
	var conn net.Conn
	conn, d.err = d.greet()
	return conn, d.err
}

func (d *natsDialer) greet() (net.Conn, error) {
	u := d.target.Broker.URL
	overTLS := u.Scheme == api.SchemeNATSTLS
	made, err := d.dial(d.ctx, u.Hostname(), outbound.Port(u), securityOf(overTLS, tlsLater))
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
	made.inspect = d.guard.inspect
	return &greetedConn{socket: made, left: greeting}, nil
}

// readGreeting reads the INFO line, and not a byte more.
func readGreeting(from io.Reader) ([]byte, error) {
	var line []byte
	var one [1]byte
	for one[0] != '\n' {
		if _, err := io.ReadFull(from, one[:]); err != nil {
			return nil, lost()
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

func notNATS() *RefusalError {
	return &RefusalError{Kind: kindRefused, Message: "the destination does not speak NATS as a server does"}
}

func (d *natsDialer) encrypt(made *socket, greeting []byte) error {
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	if err := json.Unmarshal(greeting[len("INFO "):], &info); err != nil {
		return notNATS()
	}
	if !info.Required && !info.Available {
		return &RefusalError{Kind: kindTLS, Message: "the server does not offer TLS"}
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
	*socket
	left []byte
}

func (c *greetedConn) Read(into []byte) (int, error) {
	if len(c.left) == 0 {
		return c.socket.Read(into)
	}
	n := copy(into, c.left)
	c.left = c.left[n:]
	return n, nil
}

func (d *natsDialer) failed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil || errors.Is(err, nats.ErrTimeout):
		return &RefusalError{Kind: "timeout", Message: "the broker did not take the connection in time"}
	case d.err != nil:
		return d.err
	case errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAccountAuthExpired) ||
		strings.Contains(strings.ToLower(err.Error()), "authorization"):
		return unauthenticated("")
	case errors.Is(err, errGuard):
		return notNATS()
	}
	return lost()
}

func (c *natsConn) publish(ctx context.Context, to *api.Broker, m *Message) error {
	message := nats.NewMsg(to.Subject)
	message.Data = m.Body
	for _, h := range m.Headers {
		message.Header[h.Name] = []string{h.Value}
	}
	c.guard.sent(m)
	_, err := c.stream.PublishMsg(ctx, message, jetstream.WithMsgID(m.Once), jetstream.WithRetryAttempts(0))
	var told *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrInvalidJSAck):
		return &RefusalError{Kind: kindMissing, Message: "no stream takes this subject, or JetStream is off", Healthy: true}
	case errors.Is(err, nats.ErrMaxPayload):
		return tooLarge()
	case errors.Is(err, nats.ErrHeadersNotSupported) || errors.Is(err, nats.ErrBadHeaderMsg):
		return &RefusalError{Kind: kindRefused, Message: "the server does not take headers; NATS 2.2 or later does"}
	case errors.As(err, &told):
		return &RefusalError{Kind: kindNotConfirmed, Message: "the stream could not take the message", Detail: detail(told.Description)}
	case errors.Is(err, nats.ErrPermissionViolation):
		return accessRefused("")
	}
	return lost()
}

func (c *natsConn) usable() bool { return !c.conn.IsClosed() }

func (c *natsConn) close() { c.conn.Close() }
