// Package kafka publishes to Kafka.
package kafka

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// maxKafkaReply bounds a reply: metadata of a cluster of a thousand brokers is a tenth of it.
	maxKafkaReply = 1 << 20
	// maxKafkaBatch is above the largest message; the broker has a bound of its own.
	maxKafkaBatch = 4 << 20
	// kafkaWaits is how many messages may wait in a client.
	kafkaWaits = 1000
	kafkaTries = 3
	// kafkaMetadata is the least time between two questions for metadata: a new client's first message waits for one.
	kafkaMetadata = 250 * time.Millisecond
)

// connection is a client of a cluster: an idempotent producer, all in-sync replicas confirm.
type connection struct {
	client *kgo.Client
	*broker.Allowance
	// broken is closed at a dial that no repeat can help.
	broken chan struct{}

	mu sync.Mutex
	// dialErr is of the last dial, nil where that went well.
	dialErr error
}

// Protocol is that of Kafka, for a main to register.
func Protocol() broker.Protocol {
	return broker.Protocol{Schemes: []string{api.SchemeKafka, api.SchemeKafkaTLS}, Open: open}
}

func open(ctx context.Context, dial broker.Dial, _ *outbound.Dialer, t *broker.Target) (broker.Connection, error) {
	u := t.Broker.URL
	by := broker.SecurityOf(u.Scheme == api.SchemeKafkaTLS, broker.TLSAtOnce)
	c := &connection{Allowance: broker.NewAllowance(), broken: make(chan struct{})}
	options := []kgo.Opt{
		kgo.SeedBrokers(net.JoinHostPort(u.Hostname(), outbound.Port(u))), kgo.ClientID("forgequeue"),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return c.dial(ctx, dial, address, by) }),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordRetries(kafkaTries), kgo.UnknownTopicRetries(0), kgo.RequestRetries(kafkaTries),
		kgo.ProducerBatchMaxBytes(maxKafkaBatch), kgo.BrokerMaxWriteBytes(2 * maxKafkaBatch), kgo.BrokerMaxReadBytes(maxKafkaReply),
		kgo.FetchMaxBytes(maxKafkaReply), kgo.FetchMaxPartitionBytes(maxKafkaReply), kgo.MaxBufferedRecords(kafkaWaits), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(api.MaxPushTimeout), kgo.MetadataMinAge(kafkaMetadata), kgo.ConnIdleTimeout(broker.IdleTime), kgo.DisableClientMetrics(),
	}
	if t.User != "" {
		options = append(options, kgo.SASL(login(t)))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, &broker.RefusalError{Kind: "internal", Message: "the client could not be made"}
	}
	c.client = client
	if err := client.Ping(ctx); err != nil {
		err = c.failed(ctx, err)
		client.Close()
		if refusal, ok := errors.AsType[*broker.RefusalError](err); ok && t.User != "" && refusal.Kind == broker.Lost().Kind { // some tell no more
			return nil, &broker.RefusalError{Kind: broker.KindAuthentication, Message: "the cluster ended the connection at the login: the user, the password or sasl is wrong"}
		}
		return nil, err
	}
	return c, nil
}

func login(t *broker.Target) sasl.Mechanism {
	scrammed := scram.Auth{User: t.User, Pass: t.Password}
	switch t.Broker.SASL {
	case api.SASLScram256:
		return scrammed.AsSha256Mechanism()
	case api.SASLScram512:
		return scrammed.AsSha512Mechanism()
	}
	return plain.Auth{User: t.User, Pass: t.Password}.AsMechanism()
}

// dial makes a socket to an address of the cluster, each of which is checked.
func (c *connection) dial(ctx context.Context, dial broker.Dial, address string, by broker.Security) (net.Conn, error) {
	made, err := c.dialChecked(ctx, dial, address, by)
	c.mu.Lock()
	defer c.mu.Unlock()
	working := c.Usable()
	if working {
		c.dialErr = err
	}
	if err != nil {
		var refusal *broker.RefusalError
		if working && (errors.Is(err, outbound.ErrAddress) || errors.As(err, &refusal)) {
			close(c.broken)
		}
		return nil, err
	}
	made.Inspect = func(read []byte) error { return c.Take(len(read)) }
	return made, nil
}

func (c *connection) dialChecked(ctx context.Context, dial broker.Dial, address string, by broker.Security) (*broker.Socket, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, outbound.ErrAddress
	}
	return dial(ctx, host, port, by)
}

func (c *connection) Publish(ctx context.Context, to *api.Broker, m *broker.Message) error {
	record := &kgo.Record{Topic: to.Topic, Key: []byte(m.ID), Value: m.Body}
	for _, h := range m.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
	}
	c.Sent(m)
	confirmed := make(chan error, 1)
	c.client.TryProduce(ctx, record, func(_ *kgo.Record, err error) { confirmed <- err })
	select {
	case err := <-confirmed:
		if err == nil {
			return nil
		}
		return c.failed(ctx, err)
	case <-c.broken:
		return c.dialFailure()
	case <-ctx.Done(): // the client is retired, and fails what it has when it is closed
		if err := c.dialFailure(); err != nil {
			return err
		}
		return context.Cause(ctx)
	}
}

func (c *connection) dialFailure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dialErr
}

func (c *connection) failed(ctx context.Context, err error) error {
	var told *kerr.Error
	switch {
	case errors.As(err, &told):
		return refusal(told)
	case errors.Is(err, kgo.ErrMaxBuffered):
		return &broker.RefusalError{Kind: broker.KindNotConfirmed, Message: "too many messages wait for the cluster's confirm"}
	}
	if dialed := c.dialFailure(); dialed != nil {
		return dialed
	}
	if ctx.Err() != nil {
		return &broker.RefusalError{Kind: "timeout", Message: "the cluster did not answer in time"}
	}
	return broker.Lost()
}

func refusal(told *kerr.Error) *broker.RefusalError {
	switch told {
	case kerr.UnknownTopicOrPartition, kerr.InvalidTopicException:
		return &broker.RefusalError{Kind: broker.KindMissing, Message: "the cluster has no such topic", Detail: told.Message, Healthy: true}
	case kerr.MessageTooLarge, kerr.RecordListTooLarge:
		return broker.TooLarge()
	case kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed:
		return broker.AccessRefused(told.Message)
	case kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState:
		return broker.Unauthenticated(told.Message)
	}
	return &broker.RefusalError{Kind: broker.KindNotConfirmed, Message: "the cluster could not take the message", Detail: broker.Detail(told.Message)}
}

func (c *connection) Usable() bool {
	select {
	case <-c.broken:
		return false
	default:
		return true
	}
}

func (c *connection) Close() { c.client.Close() }
