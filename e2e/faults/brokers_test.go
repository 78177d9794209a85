package faults_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// brokerQueue is the settings of a queue that sends to a broker; while that is away its jobs spend no attempts.
func brokerQueue(url string) map[string]any {
	return map[string]any{
		"mode": "push", "max_attempts": 25, "retry": map[string]any{"base_ms": 200, "cap_ms": 1000},
		"push": map[string]any{"url": url, "timeout_ms": 20_000, "breaker": map[string]any{"calls": 5, "open_ms": 500}},
	}
}

// got is what a broker has of each job, by the job's id.
type got map[string][]string

// note notes one message. Its id and its body name one job.
func (g got) note(t *testing.T, id string, body []byte, epoch string) {
	t.Helper()
	var job api.PushedJob
	if err := json.Unmarshal(body, &job); err != nil || job.ID != id {
		t.Errorf("the message %q has the body %s", id, body)
	}
	g[id] = append(g[id], epoch)
}

// RabbitMQ and NATS are killed under load and started again: every job ends completed, its message is there, and where
// it is there twice both bear the same id.
func TestBrokersKilledUnderLoad(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	c := pushCluster(t, stack.ClusterOptions{})
	t.Run("RabbitMQ", func(t *testing.T) {
		t.Parallel()
		server := brokertest.NewRabbitMQ(t)
		declare(t, server.Address, "jobs")
		brokerIsKilled(t, c, server, "amqp://guest:guest@"+server.Address+"//jobs", func(g got) { drainRabbitMQ(t, server.Address, g) })
	})
	t.Run("NATS", func(t *testing.T) {
		t.Parallel()
		server := brokertest.NewNATS(t)
		js := jetStream(t, server.Address)
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"jobs"}, Storage: jetstream.FileStorage}); err != nil {
			t.Fatal(err)
		}
		brokerIsKilled(t, c, server, "nats://"+server.Address+"/jobs", func(g got) { drainNATS(t, server.Address, g) })
	})
}

func brokerIsKilled(t *testing.T, c *stack.Cluster, server *brokertest.Server, url string, drain func(got)) {
	t.Helper()
	p := newPushTenant(t, c, t.Name(), brokerQueue(url))
	stop := p.produce(t)
	count := func(sql string) int { return stack.Query[int](t.Context(), t, c.DatabaseURL, sql, p.ID)[0] }
	completed := func() int {
		return count(`SELECT count(*)::integer FROM finished_jobs WHERE tenant_id = $1 AND state = 'completed'`)
	}
	for range lane(1, 4) {
		before := completed()
		stack.Eventually(t, 2*time.Minute, "jobs to be published", func() bool { return completed() > before+10 })
		server.Kill()
		pace(t.Context(), time.Second)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	before := completed()
	stack.Eventually(t, 2*time.Minute, "jobs to be published again", func() bool { return completed() > before+10 })
	stop()
	stack.Eventually(t, 4*time.Minute, "all jobs to end", func() bool {
		return count(`SELECT count(*)::integer FROM jobs WHERE tenant_id = $1`) == 0
	})
	if n, submitted := completed(), int(p.submitted.Load()); n != submitted {
		t.Errorf("%d of %d jobs are completed", n, submitted)
	}
	messages := got{}
	drain(messages)
	lost, twice := 0, 0
	for _, id := range stack.Query[string](t.Context(), t, c.DatabaseURL, `SELECT id::text FROM finished_jobs WHERE tenant_id = $1`, p.ID) {
		if lost += 1 - min(len(messages[id]), 1); len(messages[id]) > 1 {
			twice++
		}
		delete(messages, id)
	}
	if lost > 0 || len(messages) > 0 {
		t.Errorf("%d messages are lost, %d are of no job", lost, len(messages))
	}
	t.Logf("FIGURE brokers_killed=%s kills=%d submitted=%d lost=%d duplicates=%d", t.Name(), lane(1, 4), p.submitted.Load(), lost, twice)
}

func rabbitChannel(t *testing.T, address string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial("amqp://guest:guest@" + address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}

func declare(t *testing.T, address, queue string) {
	t.Helper()
	if _, err := rabbitChannel(t, address).QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
}

func drainRabbitMQ(t *testing.T, address string, g got) {
	t.Helper()
	channel := rabbitChannel(t, address)
	for {
		m, there, err := channel.Get("jobs", true)
		if err != nil {
			t.Fatal(err)
		}
		if !there {
			return
		}
		g.note(t, m.MessageId, m.Body, fmt.Sprint(m.Headers[api.HeaderPushEpoch]))
	}
}

func jetStream(t *testing.T, address string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect("nats://" + address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func drainNATS(t *testing.T, address string, g got) {
	t.Helper()
	stream, err := jetStream(t, address).Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	for sequence := range stream.CachedInfo().State.LastSeq {
		m, err := stream.GetMsg(t.Context(), sequence+1)
		if err != nil {
			t.Fatal(err)
		}
		g.note(t, m.Header[api.HeaderPushJobID][0], m.Data, m.Header[api.HeaderPushEpoch][0])
	}
}

// A bridge is killed under load, again and again: each message becomes one job.
func TestBridgeKilledUnderLoad(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	c := pushCluster(t, stack.ClusterOptions{})
	tenant := c.NewTenant(t, "bridged")
	server := brokertest.NewRabbitMQ(t)
	declare(t, server.Address, "orders")
	channel := rabbitChannel(t, server.Address)
	messages := lane(1500, 20_000)
	for i := range messages {
		if err := channel.PublishWithContext(t.Context(), "", "orders", true, false, amqp.Publishing{
			MessageId: "order-" + strconv.Itoa(i), DeliveryMode: amqp.Persistent, Body: []byte(`{"order":` + strconv.Itoa(i) + `}`),
		}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(sql string) int { return stack.Query[int](t.Context(), t, c.DatabaseURL, sql, tenant.ID)[0] }
	jobs := func() int { return count(`SELECT count(*)::integer FROM jobs WHERE tenant_id = $1`) }
	start := func() *stack.Process {
		command := exec.CommandContext(t.Context(), stack.Bridge(t), "--queue", "orders", "--prefetch", "50")
		command.Env = append(os.Environ(), "FORGEQUEUE_URL="+c.Gateways[0].URL, "FORGEQUEUE_API_KEY="+tenant.Key,
			"FORGEQUEUE_BRIDGE_FROM=amqp://guest:guest@"+server.Address+"/orders")
		return stack.StartCommand(t, command)
	}
	kills := lane(3, 20)
	for range kills {
		before := jobs()
		bridge := start()
		stack.Eventually(t, 2*time.Minute, "messages to be submitted", func() bool { return jobs() > min(before+100, messages-1) })
		bridge.Kill()
	}
	bridge := start()
	stack.Eventually(t, 4*time.Minute, "the queue to be empty", func() bool {
		state, err := channel.QueueDeclarePassive("orders", true, false, false, false, nil)
		return err == nil && state.Messages == 0 && jobs() >= messages
	})
	if code := bridge.Stop(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, bridge.Output())
	}
	if state, err := channel.QueueDeclarePassive("orders", true, false, false, false, nil); err != nil || state.Messages != 0 {
		t.Errorf("%d messages were not acked, %v", state.Messages, err)
	}
	distinct := count(`SELECT count(DISTINCT payload::text)::integer FROM jobs WHERE tenant_id = $1`)
	t.Logf("FIGURE bridge_kills=%d messages=%d lost=%d double=%d", kills, messages, messages-distinct, jobs()-distinct)
	if distinct != messages || jobs() != messages {
		t.Errorf("%d messages became %d jobs, %d of them different", messages, jobs(), distinct)
	}
}
