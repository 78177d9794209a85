package bridge

import (
	"context"
	"errors"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	amqpHeartbeat = 10 * time.Second
	consumerTag   = "forgequeue-bridge"
)

var errClosed = errors.New("the connection to the broker was lost")

// amqpSource is a consumer of a queue. Messages that are not settled are the broker's again when the connection ends.
type amqpSource struct {
	conn       *amqp.Connection
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
	closed     chan *amqp.Error
}

func openAMQP(from *Source, prefetch int) (source, error) {
	u := *from.url
	vhost := "/"
	if given := u.Query().Get("vhost"); given != "" {
		vhost = given
	}
	u.Path, u.RawPath, u.RawQuery = "/", "", ""
	conn, err := amqp.DialConfig(u.String(), amqp.Config{
		Vhost: vhost, Heartbeat: amqpHeartbeat, Locale: "en_US", ChannelMax: 1, Properties: amqp.Table{"product": "ForgeQueue bridge"},
	})
	if err != nil {
		return nil, withoutURL(err)
	}
	s := &amqpSource{conn: conn}
	if s.channel, err = conn.Channel(); err == nil {
		err = s.channel.Qos(prefetch, 0, false)
	}
	if err == nil {
		s.closed = s.channel.NotifyClose(make(chan *amqp.Error, 1))
		s.deliveries, err = s.channel.Consume(from.queue, consumerTag, false, false, false, false, nil)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

// withoutURL drops the URL, which has the password.
func withoutURL(err error) error {
	if parsing, ok := errors.AsType[*url.Error](err); ok {
		return parsing.Err
	}
	return err
}

func (s *amqpSource) take(ctx context.Context, n int) ([]*message, error) {
	var taken []*message
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case one, open := <-s.deliveries:
		if !open {
			return nil, s.lost()
		}
		taken = append(taken, fromDelivery(one))
	}
	for len(taken) < n {
		select {
		case one, open := <-s.deliveries:
			if !open {
				return taken, s.lost()
			}
			taken = append(taken, fromDelivery(one))
		default:
			return taken, nil
		}
	}
	return taken, nil
}

// lost is why there are no more deliveries. The queue may have been deleted, too.
func (s *amqpSource) lost() error {
	if err := <-s.closed; err != nil {
		return err
	}
	return errClosed
}

func fromDelivery(d amqp.Delivery) *message {
	return &message{id: d.MessageId, jobType: d.Type, body: d.Body, receipt: d}
}

func (s *amqpSource) accept(_ context.Context, m *message) error {
	return m.receipt.(amqp.Delivery).Ack(false) //nolint:forcetypeassert // its own
}

func (s *amqpSource) reject(_ context.Context, m *message) error {
	return m.receipt.(amqp.Delivery).Nack(false, false) //nolint:forcetypeassert // its own
}

func (s *amqpSource) giveBack(_ context.Context, m *message) error {
	return m.receipt.(amqp.Delivery).Nack(false, true) //nolint:forcetypeassert // its own
}

// hold does nothing: a message is the consumer's while it is not settled.
func (s *amqpSource) hold(context.Context, *message) error { return nil }

func (s *amqpSource) close(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(settleTime)
	}
	_ = s.conn.CloseDeadline(deadline)
}
