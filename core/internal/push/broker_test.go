package push_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// rabbit is the package's RabbitMQ, with a queue of the test's own.
func rabbit(t *testing.T, queue string) (url string, channel *amqp.Channel) {
	t.Helper()
	address := brokertest.RabbitMQ(t).Address
	conn, err := amqp.Dial("amqp://guest:guest@" + address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if channel, err = conn.Channel(); err == nil {
		_, err = channel.QueueDeclare(queue, true, false, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "amqp://" + address, channel
}

// putBroker sets a queue to send to a broker, as a user.
func (f *fixture) putBroker(name, url, settle string, changes ...settings) {
	f.Helper()
	request := api.QueueRequest{
		Mode: new(api.ModePush), Push: &api.PushRequest{URL: url, Settle: &settle, TimeoutMS: new(int64(20_000))},
		Retry: &api.RetryRequest{BaseMS: new(int64(1)), Jitter: new(0.0)},
	}
	for _, change := range changes {
		change(&request)
	}
	key := tenant.QueueKey{Tenant: f.tenant, Name: name}
	_, _, err := f.d.PutPushQueue(f.Context(), f.tenant, name, request, queues.NewSecret{
		Sealed: f.keys.Seal([]byte(secret), key.SecretPlace()), Replace: true,
		Credentials: f.keys.Seal([]byte("guest\x00guest"), key.CredentialsPlace()), NewCredentials: true,
	})
	if err != nil {
		f.Fatal(err)
	}
}

func next(t *testing.T, channel *amqp.Channel, queue string) amqp.Delivery {
	t.Helper()
	var got amqp.Delivery
	celltest.Eventually(t, "a message in "+queue, func() (there bool) {
		var err error
		if got, there, err = channel.Get(queue, true); err != nil {
			t.Fatal(err)
		}
		return there
	})
	return got
}

// With settle confirm the broker's confirm completes the job; the message is the job as a call sends it.
func TestConfirmCompletesTheJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	url, channel := rabbit(t, "confirmed")
	f.putBroker("out", url+"//confirmed", api.SettleConfirm)
	id := f.submit(f.tenant, "out", 1)[0]
	got := next(t, channel, "confirmed")
	f.ends(f.tenant, id, api.StateCompleted)
	var body api.PushedJob
	if err := json.Unmarshal(got.Body, &body); err != nil || body.ID != id.String() || string(body.Payload) != `{"n":1.50}` || body.Attempt != 1 {
		t.Errorf("%s, %v", got.Body, err)
	}
	token, _ := got.Headers[api.HeaderPushLeaseToken].(string)
	if got.MessageId != id.String() || got.Headers[api.HeaderPushJobID] != id.String() || got.Headers[api.HeaderPushAttempt] != "1" ||
		got.Headers[api.HeaderPushEpoch] != "1" || token == "" || got.Headers["Webhook-Signature"] == nil || got.CorrelationId != "corr-1" {
		t.Errorf("%+v", got)
	}
	if n := f.outcomes("completed"); n != 1 {
		t.Errorf("%v are counted as completed", n)
	}
}

// With settle worker the consumer has the lease: it extends it and ends the job. A job that it does not end is sent
// again with the same id and another epoch, to a stream that recognises repeats too.
func TestWorkerSettlesTheJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	url, channel := rabbit(t, "settled")
	f.putBroker("out", url+"//settled", api.SettleWorker, func(r *api.QueueRequest) { r.VisibilityTimeoutMS = new(int64(60_000)) })
	id := f.submit(f.tenant, "out", 1)[0]
	lease := leaseOf(t, next(t, channel, "settled"))
	celltest.Eventually(t, "the job to be handed over", func() bool {
		return f.outcomes("published") == 1
	})
	if state := f.get(f.tenant, id).State; state != api.StateRunning {
		t.Fatalf("the job is %s", state)
	}
	status, err := f.d.Heartbeat(f.Context(), []jobs.Report{{Lease: lease}})
	if err != nil || status[0].Status != api.LeaseOK {
		t.Fatalf("%+v, %v", status, err)
	}
	f.exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 hour' WHERE id = $1`, id)
	if _, err := f.store.Jobs.Reap(f.Context(), time.Now().Add(-time.Hour), 10, celltest.Half); err != nil {
		t.Fatal(err)
	}
	f.promote()
	again := next(t, channel, "settled")
	if again.MessageId != id.String() || again.Headers[api.HeaderPushEpoch] != "2" || again.Headers[api.HeaderPushAttempt] != "2" {
		t.Errorf("%+v", again)
	}
	if late := f.d.End(f.Context(), []jobs.Ending{{Lease: lease, Kind: api.KindComplete}})[0]; late.Err == nil {
		t.Error("the holder of the lost lease ended the job")
	}
	if ended := f.d.End(f.Context(), []jobs.Ending{{Lease: leaseOf(t, again), Kind: api.KindComplete, Result: []byte(`"done"`)}})[0]; ended.Err != nil {
		t.Fatal(ended.Err)
	}
	if done := f.ends(f.tenant, id, api.StateCompleted); string(done.Result) != `"done"` {
		t.Errorf("%s", done.Result)
	}
}

func leaseOf(t *testing.T, got amqp.Delivery) job.Lease {
	t.Helper()
	token, _ := got.Headers[api.HeaderPushLeaseToken].(string)
	lease, err := job.ParseToken(token)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// JetStream drops a message whose id it knows: with settle worker the next attempt of a job is another message.
func TestNATSGetsEachAttemptOfAWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := brokertest.NATS(t).Address
	conn, err := nats.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "WORK", Subjects: []string{"work"}})
	if err != nil {
		t.Fatal(err)
	}
	count := func() uint64 {
		info, err := stream.Info(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	f.putNATS("out", "nats://"+address+"/work", api.SettleWorker)
	id := f.submit(f.tenant, "out", 1)[0]
	celltest.Eventually(t, "the first message", func() bool { return count() == 1 })
	f.exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 hour' WHERE id = $1`, id)
	if _, err := f.store.Jobs.Reap(f.Context(), time.Now().Add(-time.Hour), 10, celltest.Half); err != nil {
		t.Fatal(err)
	}
	f.promote()
	celltest.Eventually(t, "the second message", func() bool { return count() == 2 })
	for sequence := range uint64(2) {
		got, err := stream.GetMsg(t.Context(), sequence+1)
		if err != nil || got.Header[api.HeaderPushJobID][0] != id.String() {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func (f *fixture) putNATS(name, url, settle string) {
	f.Helper()
	f.put(f.tenant, name, url, func(r *api.QueueRequest) { r.Push.Settle = &settle })
}

// What the broker cannot place fails the attempt, with a reason, and does not open the breaker; a broker that is not
// there opens it.
func TestBrokersFailuresFailTheAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	url, _ := rabbit(t, "unused")
	once := func(r *api.QueueRequest) {
		r.MaxAttempts = new(1)
		r.Push.Breaker = &api.BreakerSettingsRequest{Calls: new(2)}
	}
	for name, kind := range map[string]string{"//nowhere": "unroutable", "/nowhere/key": "no_destination"} {
		queue := strings.Trim(strings.ReplaceAll(name, "/", "-"), "-")
		f.putBroker(queue, url+name, api.SettleConfirm, once)
		for _, id := range f.submit(f.tenant, queue, 5) {
			dead := f.ends(f.tenant, id, api.StateDeadLetter)
			if dead.LastError == nil || dead.LastError.Type != kind {
				t.Errorf("%s: %+v", name, dead.LastError)
			}
		}
		if state := f.breaker(f.tenant, queue).State; state != api.BreakerClosed {
			t.Errorf("%s: the breaker is %s", name, state)
		}
	}
	f.putBroker("away", "amqp://127.0.0.1:1/a/b", api.SettleConfirm, func(r *api.QueueRequest) {
		r.Push.Breaker = &api.BreakerSettingsRequest{Calls: new(2), OpenMS: new(int64(3_600_000))}
	})
	f.submit(f.tenant, "away", 5)
	celltest.Eventually(t, "the breaker to open", func() bool { return f.breaker(f.tenant, "away").State == api.BreakerOpen })
}

// A broker that confirms nothing takes no more than its share of the places, and no goroutine stays behind: the calls
// of another destination of the tenant go on.
func TestASilentBrokerLeavesPlacesToOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, channel := rabbit(t, "beside")
	url := "amqp://" + brokertest.RabbitMQ(t).Address
	f.putBroker("silent", "amqp://"+silent(t)+"/a/b", api.SettleConfirm, patient)
	f.putBroker("beside", url+"//beside", api.SettleConfirm)
	f.submit(f.tenant, "silent", 100)
	id := f.submit(f.tenant, "beside", 1)[0]
	next(t, channel, "beside")
	f.ends(f.tenant, id, api.StateCompleted)
	if n := f.count(`SELECT count(*) FROM jobs WHERE queue = 'silent' AND state = 'running'`); n > 64/4 {
		t.Errorf("%d jobs are held for the silent broker", n)
	}
}

// outcomes is how many jobs ended so, by the metric.
func (f *fixture) outcomes(word string) float64 {
	f.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "forgequeue_push_outcomes_total" && metric.GetLabel()[0].GetValue() == word {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// silent is a server that reads and says nothing.
func silent(t *testing.T) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { _, _ = io.Copy(io.Discard, conn); _ = conn.Close() })
		}
	})
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// While the key is changed, credentials are sealed again with the new one; then the old one is needed no more.
func TestCredentialsAreSealedAgain(t *testing.T) {
	t.Parallel()
	f := newIdleFixture(t)
	url, channel := rabbit(t, "resealed")
	f.putBroker("out", url+"//resealed", api.SettleConfirm)
	var err error
	if f.keys, err = seal.New(strings.Repeat("n", 32), key); err != nil {
		t.Fatal(err)
	}
	f.start(5 * time.Second)
	id := f.submit(f.tenant, "out", 1)[0]
	f.ends(f.tenant, id, api.StateCompleted)
	next(t, channel, "resealed")
	fresh, err := seal.New(strings.Repeat("n", 32))
	if err != nil {
		t.Fatal(err)
	}
	place := tenant.QueueKey{Tenant: f.tenant, Name: "out"}
	celltest.Eventually(t, "both to be sealed with the new key", func() bool {
		var secretSealed, credentials []byte
		if err := f.direct.QueryRow(t.Context(), `SELECT push_secret, push_credentials FROM queues`).Scan(&secretSealed, &credentials); err != nil {
			t.Fatal(err)
		}
		_, _, secretErr := fresh.Open(secretSealed, place.SecretPlace())
		opened, _, err := fresh.Open(credentials, place.CredentialsPlace())
		return secretErr == nil && err == nil && string(opened) == "guest\x00guest"
	})
	if strings.Contains(f.log.String(), "guest") {
		t.Errorf("the log tells the password: %s", f.log.String())
	}
}
