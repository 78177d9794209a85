package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
	"github.com/forgequeue/forgequeue/core/internal/broker"
)

func rabbit(t *testing.T) (url string, channel *amqp.Channel) {
	t.Helper()
	url = "amqp://guest:guest@" + brokertest.RabbitMQ(t).Address
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if channel, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	return url, channel
}

func declare(t *testing.T, channel *amqp.Channel, exchange, queue, key string) {
	t.Helper()
	err := channel.ExchangeDeclare(exchange, "direct", true, false, false, false, nil)
	if err == nil {
		_, err = channel.QueueDeclare(queue, true, false, false, false, nil)
	}
	if err == nil {
		err = channel.QueueBind(queue, key, exchange, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A message is persistent, has the job's id and the headers, and is in the queue when Publish returns.
func TestAMQPMessageIsThereWhenConfirmed(t *testing.T) {
	t.Parallel()
	url, channel := rabbit(t)
	declare(t, channel, "jobs/a", "mail", "new mail")
	f := newFixture(t)
	for _, place := range []string{"/jobs%2Fa/new%20mail", "//mail"} {
		m := message(uuid.NewString())
		if err := f.publish(url+place, m); err != nil {
			t.Fatal(err)
		}
		got, ok, err := channel.Get("mail", true)
		if err != nil || !ok {
			t.Fatalf("%s: no message is there: %v", place, err)
		}
		if got.MessageId != m.ID || got.DeliveryMode != amqp.Persistent || got.Type != "mail" || got.CorrelationId != "corr" ||
			got.ContentType != "application/json" || !bytes.Equal(got.Body, m.Body) || got.Headers["Forgequeue-Job-Id"] != m.ID {
			t.Errorf("%s: %+v", place, got)
		}
	}
}

// What the broker cannot place is refused with a reason, and harms no other message.
func TestAMQPRefusals(t *testing.T) {
	t.Parallel()
	url, channel := rabbit(t)
	declare(t, channel, "some", "some", "key")
	f := newFixture(t)
	if r := f.refuses(url+"/some/other", "unroutable"); !r.Healthy || r.Retry {
		t.Errorf("%+v", r)
	}
	if r := f.refuses(url+"/nowhere/key", "no_destination"); !r.Healthy {
		t.Errorf("%+v", r)
	}
	address := brokertest.RabbitMQ(t).Address
	if r := f.refuses("amqp://guest:wrong@"+address+"/some/key", "authentication_failed"); r.Healthy {
		t.Errorf("%+v", r)
	}
	f.refuses(url+"/some/key?vhost=none", "authentication_failed")
	if err := f.publish(url+"/some/key", message(uuid.NewString())); err != nil {
		t.Error(err)
	}
}

// A full queue that rejects says so by a nack, which is a failure of the broker.
func TestAMQPNack(t *testing.T) {
	t.Parallel()
	url, channel := rabbit(t)
	if _, err := channel.QueueDeclare("full", true, false, false, false, amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	if err := f.publish(url+"//full", message(uuid.NewString())); err != nil {
		t.Fatal(err)
	}
	if r := f.refuses(url+"//full", "not_confirmed"); r.Healthy {
		t.Errorf("%+v", r)
	}
}

// Many messages at once, some of them unroutable, on connections that are closed under them: each call that returned
// nil has its message in the queue, and each that was returned none.
func TestAMQPManyAtOnce(t *testing.T) {
	t.Parallel()
	url, channel := rabbit(t)
	declare(t, channel, "many", "many", "good")
	f := newFixture(t)
	var group sync.WaitGroup
	var mu sync.Mutex
	confirmed := map[string]bool{}
	for i := range 400 {
		group.Go(func() {
			m := message(uuid.NewString())
			if i%4 == 0 {
				var refusal *broker.RefusalError
				if err := f.publish(url+"/many/bad", m); !errors.As(err, &refusal) || refusal.Kind != "unroutable" {
					t.Errorf("%d: %v", i, err)
				}
				return
			}
			if err := f.publish(url+"/many/good", m); err != nil {
				t.Errorf("%d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			confirmed[m.ID] = true
		})
	}
	group.Wait()
	for {
		got, ok, err := channel.Get("many", true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		delete(confirmed, got.MessageId)
	}
	if len(confirmed) > 0 {
		t.Errorf("%d messages were confirmed and are not there", len(confirmed))
	}
}

// A changed password makes a new connection, the one before serves nobody else.
func TestAMQPCredentialsAreThoseOfTheTarget(t *testing.T) {
	t.Parallel()
	url, channel := rabbit(t)
	declare(t, channel, "mine", "mine", "key")
	f := newFixture(t)
	if err := f.publish(url+"/mine/key", message(uuid.NewString())); err != nil {
		t.Fatal(err)
	}
	f.refuses(fmt.Sprintf("amqp://guest:changed@%s/mine/key", brokertest.RabbitMQ(t).Address), "authentication_failed")
}

// A publish ends with its context, although the broker says nothing.
func TestPublishEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, scheme := range []string{"amqp", "nats", "kafka"} {
		silent := hostile(t, silence)
		path := map[string]string{"amqp": "/a/b", "nats": "/a", "kafka": "/a"}[scheme]
		cause := errors.New("over")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
		err := f.pool.Publish(ctx, f.target(scheme+"://"+silent+path), message(uuid.NewString()))
		if !errors.Is(err, cause) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}
