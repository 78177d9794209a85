package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// pushTo sets a queue of c to send to a broker.
func pushTo(t *testing.T, c *client.Client, queue, url, settle string, more ...func(*api.QueueRequest)) {
	t.Helper()
	request := api.QueueRequest{
		Mode: new(api.ModePush), Push: &api.PushRequest{URL: url, Settle: &settle, TimeoutMS: new(int64(60_000))}, MaxAttempts: new(1),
		VisibilityTimeoutMS: new(int64(600_000)),
	}
	for _, change := range more {
		change(&request)
	}
	if _, err := c.PutQueue(t.Context(), queue, request); err != nil {
		t.Fatal(err)
	}
}

func header(record *kgo.Record, name string) string {
	for _, h := range record.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// A job becomes a record of a topic. With settle confirm it is completed then; with settle worker a consumer
// sends heartbeats for it and completes it, by HTTP with the lease token of the record. A topic that is not there
// fails the attempt.
func TestKafka(t *testing.T) {
	t.Parallel()
	cluster := stack.NewCluster(t, stack.ClusterOptions{Settings: stack.PushSettings()})
	c := cluster.Client(t, cluster.NewTenant(t, "kafka").Key)
	kafka, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(3, "mail", "work"), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "ada", "p@ss"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	at := "kafka://ada:p%40ss@" + kafka.ListenAddrs()[0]
	pushTo(t, c, "confirmed", at+"/mail?sasl=scram-sha-512", api.SettleConfirm)
	pushTo(t, c, "settled", at+"/work?sasl=scram-sha-512", api.SettleWorker)
	pushTo(t, c, "nowhere", at+"/nowhere?sasl=scram-sha-512", api.SettleConfirm)
	pushTo(t, c, "refused", "kafka://ada:wrong@"+kafka.ListenAddrs()[0]+"/mail?sasl=scram-sha-512", api.SettleConfirm)
	ids := map[string]string{}
	for _, queue := range []string{"confirmed", "settled", "nowhere", "refused"} {
		ids[queue] = stack.Submit(t, c, api.SubmitRequest{Type: "mail", Queue: queue, Payload: []byte(`{"to":"ada"}`)})
	}
	records := consume(t, kafka, "mail", "work")
	if done, err := c.Wait(t.Context(), ids["confirmed"]); err != nil || done.State != api.StateCompleted {
		t.Errorf("%+v, %v", done, err)
	}
	if got := records.await(t, "mail"); string(got.Key) != ids["confirmed"] || header(got, api.HeaderPushJobID) != ids["confirmed"] {
		t.Errorf("%s", got.Key)
	}
	for queue, kind := range map[string]string{"nowhere": "no_destination", "refused": "authentication_failed"} {
		if dead, err := c.Wait(t.Context(), ids[queue]); err != nil || dead.LastError == nil || dead.LastError.Type != kind {
			t.Errorf("%s: %+v, %v", queue, dead.LastError, err)
		}
	}
	work := records.await(t, "work")
	id, token := header(work, api.HeaderPushJobID), header(work, api.HeaderPushLeaseToken)
	if _, err := c.Register(t.Context(), api.WorkerRequest{WorkerID: "consumer", Queues: []string{"settled"}}); err != nil {
		t.Fatal(err)
	}
	beat, err := c.Heartbeat(t.Context(), "consumer", []api.Lease{{JobID: id, LeaseToken: token}})
	if err != nil || beat.Leases[0].Status != api.LeaseOK {
		t.Fatalf("%+v, %v", beat, err)
	}
	if _, err := c.Complete(t.Context(), id, api.CompleteRequest{LeaseToken: token, Result: []byte(`"sent"`)}); err != nil {
		t.Fatal(err)
	}
	if done, err := c.Get(t.Context(), ids["settled"]); err != nil || done.State != api.StateCompleted || string(done.Result) != `"sent"` {
		t.Errorf("%+v, %v", done, err)
	}
}

// records are those of some topics, as they come.
type records map[string]chan *kgo.Record

func consume(t *testing.T, kafka *kfake.Cluster, topics ...string) records {
	t.Helper()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(kafka.ListenAddrs()...), kgo.ConsumeTopics(topics...), kgo.SASL(login()))
	if err != nil {
		t.Fatal(err)
	}
	got := records{}
	for _, topic := range topics {
		got[topic] = make(chan *kgo.Record, 100)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got[r.Topic] <- r })
		}
	}()
	t.Cleanup(func() { stop(); <-done; consumer.Close() })
	return got
}

func (r records) await(t *testing.T, topic string) *kgo.Record {
	t.Helper()
	select {
	case got := <-r[topic]:
		return got
	case <-time.After(time.Minute):
		t.Fatalf("no record in %s", topic)
		return nil
	}
}

func login() sasl.Mechanism { return scram.Auth{User: "ada", Pass: "p@ss"}.AsSha512Mechanism() }

// The consumers of the page are run as they stand: the curl lines, and the Python with work that succeeds and fails.
func TestConsumersOfThePage(t *testing.T) {
	t.Parallel()
	python := stack.Need(t, "python3")
	stack.Need(t, "curl")
	server := brokertest.NewNATS(t)
	conn, err := nats.Connect("nats://" + server.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	cluster := stack.NewCluster(t, stack.ClusterOptions{Settings: stack.PushSettings()})
	tenant := cluster.NewTenant(t, "consumer")
	c := cluster.Client(t, tenant.Key)
	pushTo(t, c, "orders", "nats://"+server.Address+"/orders", api.SettleWorker)
	run := func(message *jetstream.RawStreamMsg, name string, args ...string) {
		command := exec.CommandContext(t.Context(), name, args...)
		command.Env = append(os.Environ(), "URL="+cluster.Gateways[0].URL, "KEY="+tenant.Key,
			"job="+message.Header[api.HeaderPushJobID][0], "token="+message.Header[api.HeaderPushLeaseToken][0], "body="+string(message.Data))
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	shell, code := block(t, "sh", "post()"), block(t, "python", "def handle")
	driver := "\nheaders = {'Forgequeue-Job-Id': os.environ['job'], 'Forgequeue-Lease-Token': os.environ['token']}\n"
	for sequence, one := range []struct {
		run   func(*jetstream.RawStreamMsg)
		state string
	}{
		{func(m *jetstream.RawStreamMsg) { run(m, "sh", "-euc", shell) }, api.StateCompleted},
		{func(m *jetstream.RawStreamMsg) {
			run(m, python, "-c", code+driver+"handle(headers, os.environ['body'], lambda job: {'sent': job['payload']['n'] == 1})")
		}, api.StateCompleted},
		{func(m *jetstream.RawStreamMsg) {
			run(m, python, "-c", code+driver+"handle(headers, os.environ['body'], lambda job: 1 / 0)")
		}, api.StateDeadLetter},
	} {
		id := stack.Submit(t, c, api.SubmitRequest{Type: "order", Queue: "orders", Payload: []byte(`{"n":1}`)})
		var message *jetstream.RawStreamMsg
		stack.Eventually(t, time.Minute, "the message", func() bool {
			message, err = stream.GetMsg(t.Context(), uint64(sequence)+1)
			return err == nil
		})
		one.run(message)
		done, err := c.Get(t.Context(), id)
		if err != nil || done.State != one.state {
			t.Errorf("%d: %+v, %v", sequence, done, err)
		}
		if done.State == api.StateCompleted && string(done.Result) != `{"sent":true}` && string(done.Result) != `{"sent": true}` {
			t.Errorf("%d: %s", sequence, done.Result)
		}
	}
}

// block gives the code of a language in the page that has a text.
func block(t *testing.T, language, with string) string {
	t.Helper()
	page, err := os.ReadFile(stack.Repository("api-docs", "brokers.md"))
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(page), "```"+language+"\n") {
		if code, _, found := strings.Cut(part, "\n```"); found && strings.Contains(code, with) {
			return code
		}
	}
	t.Fatalf("the page has no %s with %q", language, with)
	return ""
}
