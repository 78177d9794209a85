package broker_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/brokers/kafka"
	"github.com/forgequeue/forgequeue/core/brokers/nats"
	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// fixture is a pool that may call this machine.
type fixture struct {
	*testing.T
	pool   *broker.Pool
	tenant tenant.ID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureThatMayCall(t, "127.0.0.0/8")
}

func newFixtureThatMayCall(t *testing.T, networks string) *fixture {
	t.Helper()
	guard, err := outbound.ParseGuard(networks)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, pool: broker.NewPool(outbound.Options{Guard: guard}, broker.Protocols{rabbitmq.Protocol(), nats.Protocol(), kafka.Protocol()}), tenant: uuid.Must(uuid.NewV7())}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); f.pool.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return f
}

func (f *fixture) target(url string) *broker.Target {
	f.Helper()
	read, wrong := api.BrokerURL(url)
	if wrong != "" {
		f.Fatalf("%s %s", url, wrong)
	}
	return &broker.Target{Tenant: f.tenant, Broker: read, User: read.User, Password: read.Password}
}

var epoch atomic.Int64

func message(id string) *broker.Message {
	n := strconv.FormatInt(epoch.Add(1), 10)
	return &broker.Message{
		ID: id, Delivery: id + "." + n, Once: id, Type: "mail", CorrelationID: "corr", Body: []byte(`{"n":` + n + `}`),
		Headers: []broker.Header{{Name: "Forgequeue-Job-Id", Value: id}, {Name: "Forgequeue-Epoch", Value: n}},
	}
}

func (f *fixture) publish(url string, m *broker.Message) error {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	return f.pool.Publish(ctx, f.target(url), m)
}

// refuses publishes, and is refused with a kind.
func (f *fixture) refuses(url, kind string) *broker.RefusalError {
	f.Helper()
	err := f.publish(url, message(uuid.NewString()))
	var refusal *broker.RefusalError
	if !errors.As(err, &refusal) || refusal.Kind != kind {
		f.Fatalf("%s: %v, and not %s", url, err, kind)
	}
	if strings.Contains(refusal.Error(), "127.0.0.1") {
		f.Errorf("the text has an address: %s", refusal)
	}
	return refusal
}

// hostile is a server that does what the test says with each connection.
func hostile(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ended := make(chan struct{}, 1000)
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close(); <-ended })
			go func() { defer func() { _ = conn.Close(); ended <- struct{}{} }(); serve(conn) }()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String()
}
