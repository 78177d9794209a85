// Package rabbitmq publishes to RabbitMQ (AMQP 0-9-1).
package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	amqpFrame     = 128 << 10
	amqpHeartbeat = 10 * time.Second
	// goodbye is how long a broker may take to answer the close of a connection.
	goodbye = 2 * time.Second
	// returnsWait is how many returned messages may wait to be noted.
	returnsWait = 64
)

// connection is a connection with one channel in confirm mode.
type connection struct {
	conn    *amqp.Connection
	channel *amqp.Channel
	guard   *guard
	socket  *broker.Socket

	// asks are for the goroutine that sees the returns, ended is closed when it has ended.
	asks  chan ask
	ended chan struct{}

	mu sync.Mutex
	// waiting are the deliveries without a confirm: nothing else of a return is kept. A string says why it was returned.
	waiting map[string]*string
	// reason is why the channel was closed by the broker.
	reason *amqp.Error
}

// ask is answered when every return that came before it is noted.
type ask chan struct{}

// Protocol is that of RabbitMQ, for a main to register.
func Protocol() broker.Protocol {
	return broker.Protocol{Schemes: []string{api.SchemeAMQP, api.SchemeAMQPS}, Open: open}
}

func open(ctx context.Context, dial broker.Dial, _ *outbound.Dialer, t *broker.Target) (broker.Connection, error) {
	u := t.Broker.URL
	made, err := dial(ctx, u.Hostname(), outbound.Port(u), broker.SecurityOf(u.Scheme == api.SchemeAMQPS, broker.TLSAtOnce))
	if err != nil {
		return nil, err
	}
	guard := &guard{Allowance: broker.NewAllowance()}
	made.Inspect = guard.inspect
	user, password := t.User, t.Password
	if user == "" {
		user, password = "guest", "guest" // by the AMQP URI specification
	}
	stop := context.AfterFunc(ctx, func() { _ = made.Close() })
	defer stop()
	conn, err := amqp.Open(made, amqp.Config{
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}}, Vhost: t.Broker.VHost,
		ChannelMax: 1, FrameSize: amqpFrame, Heartbeat: amqpHeartbeat, Locale: "en_US",
		Properties: amqp.Table{"product": "ForgeQueue"},
	})
	if err != nil {
		_ = made.Close()
		return nil, openingFailed(ctx, err)
	}
	c := &connection{
		conn: conn, guard: guard, socket: made, asks: make(chan ask), ended: make(chan struct{}), waiting: map[string]*string{},
	}
	if c.channel, err = conn.Channel(); err == nil {
		err = c.channel.Confirm(false)
	}
	if err != nil {
		_ = made.Close()
		return nil, openingFailed(ctx, err)
	}
	closed, returns := c.channel.NotifyClose(make(chan *amqp.Error, 1)), c.channel.NotifyReturn(make(chan amqp.Return, returnsWait))
	go c.hear(closed, returns)
	return c, nil
}

func openingFailed(ctx context.Context, err error) error {
	var told *amqp.Error
	switch {
	case ctx.Err() != nil:
		return &broker.RefusalError{Kind: "timeout", Message: "the broker did not take the connection in time"}
	case errors.Is(err, amqp.ErrCredentials):
		return broker.Unauthenticated("")
	case errors.As(err, &told) && told.Server && told.Code == amqp.AccessRefused:
		return broker.Unauthenticated(told.Reason)
	case errors.Is(err, amqp.ErrVhost) || errors.As(err, &told) && told.Server && (told.Code == amqp.NotAllowed || told.Code == amqp.InvalidPath):
		return &broker.RefusalError{Kind: broker.KindAuthentication, Message: "the broker has no such vhost, or does not let the user in there", Detail: reasonOf(told)}
	case errors.As(err, &told) && !told.Server && told.Reason == broker.ErrGuard.Error(), errors.Is(err, amqp.ErrSASL):
		return &broker.RefusalError{Kind: broker.KindRefused, Message: "the destination does not speak AMQP 0-9-1 as a broker does"}
	}
	return broker.Lost()
}

func reasonOf(told *amqp.Error) string {
	if told == nil {
		return ""
	}
	return broker.Detail(told.Reason)
}

// hear notes why messages were returned, until the channel is closed. Only messages that wait are noted.
func (c *connection) hear(closed <-chan *amqp.Error, returns <-chan amqp.Return) {
	defer close(c.ended)
	for {
		select {
		case returned, open := <-returns:
			if !open { // all that was returned is noted
				told := <-closed
				c.mu.Lock()
				c.reason = told
				c.mu.Unlock()
				return
			}
			c.note(&returned)
		case one := <-c.asks:
			for len(returns) > 0 {
				if returned, open := <-returns; open {
					c.note(&returned)
				}
			}
			close(one)
		}
	}
}

func (c *connection) note(returned *amqp.Return) {
	delivery, _ := returned.Headers[headerDelivery].(string)
	c.mu.Lock()
	defer c.mu.Unlock()
	if why := c.waiting[delivery]; why != nil {
		*why = broker.Detail(fmt.Sprintf("%d %s", returned.ReplyCode, returned.ReplyText))
	}
}

// headerDelivery recognises a message that is returned.
const headerDelivery = "Forgequeue-Delivery"

func (c *connection) Publish(ctx context.Context, to *api.Broker, m *broker.Message) error {
	why := c.wait(m.Delivery)
	if why == nil {
		return &broker.RefusalError{Kind: broker.KindNotConfirmed, Message: "the message is already on its way to the broker"}
	}
	defer c.forget(m.Delivery)
	headers := make(amqp.Table, len(m.Headers)+1)
	for _, h := range m.Headers {
		headers[h.Name] = h.Value
	}
	headers[headerDelivery] = m.Delivery
	c.guard.Sent(m)
	confirm, err := c.channel.PublishWithDeferredConfirm(to.Exchange, to.Key, true, false, amqp.Publishing{
		Headers: headers, ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: m.ID, Type: m.Type,
		CorrelationId: m.CorrelationID, Timestamp: time.Now(), AppId: "forgequeue", Body: m.Body,
	})
	if err != nil {
		return c.closedBecause(ctx)
	}
	acked, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return context.Cause(ctx)
	case !acked && c.channel.IsClosed():
		return c.closedBecause(ctx)
	case !acked:
		return &broker.RefusalError{Kind: broker.KindNotConfirmed, Message: "the broker could not take the message (nack): a queue is full, or it failed"}
	}
	if returned := c.returned(ctx, why); returned != "" {
		return &broker.RefusalError{Kind: broker.KindUnroutable, Message: "no queue is bound to the exchange with this key: the message was returned", Detail: returned, Healthy: true}
	}
	return nil
}

// wait makes place for why a delivery was returned; nil where it is waited for already.
func (c *connection) wait(delivery string) *string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[delivery] != nil {
		return nil
	}
	why := new(string)
	c.waiting[delivery] = why
	return why
}

func (c *connection) forget(delivery string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, delivery)
}

// returned says why a confirmed message was returned; empty if it was not. A return comes before its confirm, and has
// been received from the channel by then, but may not be noted yet.
func (c *connection) returned(ctx context.Context, why *string) string {
	one := make(ask)
	select {
	case c.asks <- one:
		<-one
	case <-c.ended:
	case <-ctx.Done(): // confirmed all the same
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return *why
}

// closedBecause is why the channel is closed.
func (c *connection) closedBecause(ctx context.Context) error {
	if !c.channel.IsClosed() { // a write has failed
		_ = c.socket.Close()
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	told := c.reason
	c.mu.Unlock()
	switch {
	case told == nil || !told.Server:
		return broker.Lost()
	case told.Code == amqp.NotFound:
		return &broker.RefusalError{Kind: broker.KindMissing, Message: "the broker has no such exchange", Detail: reasonOf(told), Healthy: true}
	case told.Code == amqp.AccessRefused:
		return broker.AccessRefused(told.Reason)
	case told.Code == amqp.PreconditionFailed || told.Code == amqp.ContentTooLarge:
		return broker.TooLarge()
	}
	refusal := broker.Lost()
	refusal.Detail = reasonOf(told)
	return refusal
}

func (c *connection) Usable() bool { return !c.channel.IsClosed() && !c.conn.IsClosed() }

func (c *connection) Close() {
	stop := time.AfterFunc(goodbye, func() { _ = c.socket.Close() }) // whatever the broker sends meanwhile
	defer stop.Stop()
	_ = c.conn.CloseDeadline(time.Now().Add(goodbye))
	_ = c.socket.Close()
	<-c.ended
}
