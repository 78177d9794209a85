package e2e_test

import (
	"crypto/tls"
	"maps"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Brokers whose certificates a private authority has signed. Core trusts it by SSL_CERT_FILE, as api-docs/brokers.md
// says, and sends nothing to a broker with the certificate of another one.
func TestBrokersOverTLS(t *testing.T) {
	t.Parallel()
	trusted, other := stack.NewAuthority(t), stack.NewAuthority(t)
	trusted.Issue("broker")
	other.Issue("broker")
	of := func(a *stack.Authority) brokertest.Certificate {
		return brokertest.Certificate{File: a.Path("broker.pem"), Key: a.Path("broker.key")}
	}
	rabbit, natsServer, wrongNATS := brokertest.NewRabbitMQWithTLS(t, of(trusted)), brokertest.NewNATSWithTLS(t, of(trusted)), brokertest.NewNATSWithTLS(t, of(other))
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "mail"), kfake.TLS(config(t, trusted)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	wrong, err := tls.Listen("tcp", "127.0.0.1:0", config(t, other))
	if err != nil {
		t.Fatal(err)
	}
	go shakeHands(wrong)
	t.Cleanup(func() { _ = wrong.Close() })
	mails, subject := queueOf(t, rabbit.Address), streamOf(t, natsServer.TLSAddress, trusted)

	settings := map[string]string{"SSL_CERT_FILE": trusted.Path("ca.pem")}
	maps.Copy(settings, stack.PushSettings())
	cluster := stack.NewCluster(t, stack.ClusterOptions{Settings: settings})
	c := cluster.Client(t, cluster.NewTenant(t, "encrypted").Key)
	ids := map[string]string{}
	for queue, url := range map[string]string{
		"amqp": "amqps://guest:guest@" + rabbit.TLSAddress + "//mails", "nats": "tls://" + natsServer.TLSAddress + "/mail",
		"kafka":      "kafka+tls://" + kafka.ListenAddrs()[0] + "/mail",
		"wrong-amqp": "amqps://guest:guest@" + wrong.Addr().String() + "//mails", "wrong-nats": "tls://" + wrongNATS.TLSAddress + "/mail",
		"wrong-kafka": "kafka+tls://" + wrong.Addr().String() + "/mail",
	} {
		pushTo(t, c, queue, url, api.SettleConfirm)
		ids[queue] = stack.Submit(t, c, api.SubmitRequest{Type: "mail", Queue: queue})
	}
	for _, queue := range []string{"amqp", "nats", "kafka"} {
		if done, err := c.Wait(t.Context(), ids[queue]); err != nil || done.State != api.StateCompleted {
			t.Errorf("%s: %+v, %v", queue, done.LastError, err)
		}
		refused, err := c.Wait(t.Context(), ids["wrong-"+queue])
		if err != nil || refused.State != api.StateDeadLetter || refused.LastError == nil || refused.LastError.Type != "tls" {
			t.Errorf("%s with another authority: %s, %+v, %v", queue, refused.State, refused.LastError, err)
		}
	}
	if got, ok, err := mails.Get("mails", true); err != nil || !ok || got.MessageId != ids["amqp"] {
		t.Errorf("RabbitMQ has %q: %v, %v", got.MessageId, ok, err)
	}
	if got, err := subject.GetMsg(t.Context(), 1); err != nil || got.Header.Get(api.HeaderPushJobID) != ids["nats"] {
		t.Errorf("NATS has %+v: %v", got, err)
	}
}

// config is that of a server with an authority's certificate.
func config(t *testing.T, a *stack.Authority) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.Path("broker.pem"), a.Path("broker.key"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
}

// shakeHands takes connections as far as TLS.
func shakeHands(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}()
	}
}

func queueOf(t *testing.T, address string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial("amqp://guest:guest@" + address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	if err == nil {
		_, err = channel.QueueDeclare("mails", true, false, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return channel
}

func streamOf(t *testing.T, address string, trusted *stack.Authority) jetstream.Stream {
	t.Helper()
	conn, err := nats.Connect("tls://"+address, nats.RootCAs(trusted.Path("ca.pem")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "MAIL", Subjects: []string{"mail"}})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}
