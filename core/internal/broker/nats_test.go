package broker_test

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
)

func natsStream(t *testing.T, name, subject string) (url string, stream jetstream.Stream) {
	t.Helper()
	url = "nats://" + brokertest.NATS(t).Address
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if stream, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}, MaxMsgSize: 1000}); err != nil {
		t.Fatal(err)
	}
	return url, stream
}

// A message is in the stream when Publish returns, with its headers; a repeat is recognised by Once.
func TestNATSMessageIsThereWhenConfirmed(t *testing.T) {
	t.Parallel()
	url, stream := natsStream(t, "MAIL", "mail.>")
	f := newFixture(t)
	m := message(uuid.NewString())
	for range 2 {
		if err := f.publish(url+"/mail.new", m); err != nil {
			t.Fatal(err)
		}
	}
	info, err := stream.Info(t.Context())
	if err != nil || info.State.Msgs != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	got, err := stream.GetLastMsgForSubject(t.Context(), "mail.new")
	if err != nil || got.Header.Get("Nats-Msg-Id") != m.ID || got.Header["Forgequeue-Job-Id"][0] != m.ID || !bytes.Equal(got.Data, m.Body) {
		t.Errorf("%+v, %v", got, err)
	}
	m.Once += ".2"
	if err := f.publish(url+"/mail.new", m); err != nil {
		t.Fatal(err)
	}
	if info, err = stream.Info(t.Context()); err != nil || info.State.Msgs != 2 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestNATSRefusals(t *testing.T) {
	t.Parallel()
	url, _ := natsStream(t, "SMALL", "small.>")
	f := newFixture(t)
	if r := f.refuses(url+"/nowhere", "no_destination"); !r.Healthy || r.Retry {
		t.Errorf("%+v", r)
	}
	large := message(uuid.NewString())
	large.Body = make([]byte, 2000)
	if err := f.publish(url+"/small.a", large); err == nil {
		t.Error("a message above the stream's bound was confirmed")
	}
	f.refuses("tls://127.0.0.1"+url[len("nats://127.0.0.1"):]+"/small.a", "tls")
}
