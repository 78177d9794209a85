package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// rabbit is the package's RabbitMQ, with a queue and its dead letters.
func rabbit(f *commandtest.Fixture, queue string) (url string, channel *amqp.Channel) {
	f.Helper()
	address := brokertest.RabbitMQ(f).Address
	conn, err := amqp.Dial("amqp://guest:guest@" + address)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close() })
	if channel, err = conn.Channel(); err == nil {
		_, err = channel.QueueDeclare(queue+".dead", true, false, false, false, nil)
	}
	if err == nil {
		_, err = channel.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue + ".dead"})
	}
	if err != nil {
		f.Fatal(err)
	}
	return "amqp://guest:guest@" + address + "/" + queue, channel
}

func send(f *commandtest.Fixture, channel *amqp.Channel, queue, id, body string) {
	f.Helper()
	if err := channel.PublishWithContext(f.Context(), "", queue, true, false, amqp.Publishing{
		MessageId: id, Type: "order", DeliveryMode: amqp.Persistent, Body: []byte(body),
	}); err != nil {
		f.Fatal(err)
	}
}

func depth(f *commandtest.Fixture, channel *amqp.Channel, queue string) int {
	f.Helper()
	state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		f.Fatal(err)
	}
	return state.Messages
}

// Each message becomes one job, those that come twice too; what cannot be a job goes to the dead-letter exchange. A
// bridge that is told to stop ends with exit code 0.
func TestBridgeFromRabbitMQ(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	url, channel := rabbit(f, q)
	for i := range 120 {
		send(f, channel, q, fmt.Sprintf("%s-%d", q, i%100), fmt.Sprintf(`{"n": %d}`, i%100))
	}
	send(f, channel, q, q+"-text", "hello")
	send(f, channel, q, q+"-bytes", "\xff")
	send(f, channel, q, q+"-twice", `{"a":1,"a":2}`)
	w := f.With("FORGEQUEUE_BRIDGE_FROM", url).Process("--queue", q, "--prefetch", "20")
	f.Eventually("all messages are settled", func() bool { return depth(f, channel, q) == 0 && depth(f, channel, q+".dead") == 2 })
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		f.Fatal(err)
	}
	if err := w.Wait(); err != nil {
		f.Errorf("%v", err)
	}
	if n := depth(f, channel, q); n != 0 {
		f.Errorf("%d messages are not acked", n)
	}
	jobs, err := f.Client().List(f.Context(), api.JobFilter{Queue: q}, client.PageRequest{Size: 200})
	if err != nil || len(jobs.Items) != 101 {
		f.Fatalf("%d jobs, %v", len(jobs.Items), err)
	}
	for i := range jobs.Items {
		if jobs.Items[i].Type != "order" {
			f.Errorf("the type is %s", jobs.Items[i].Type)
		}
	}
}

// server stands in for a gateway that answers as the test says.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(w http.ResponseWriter, n int)
	keys   []string
}

func newServer(t *testing.T, answer func(w http.ResponseWriter, n int)) *server {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.keys = append(s.keys, strings.Trim(r.Header.Get("Idempotency-Key"), `"`))
		n, answer := len(s.keys), s.answer
		s.mu.Unlock()
		answer(w, n)
	}))
	t.Cleanup(s.Close)
	return s
}

func stored(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write([]byte(`{"id":"01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001","state":"queued"}`))
}

// While the server is away, its key is wrong, or a limit is reached, a message waits, neither acked nor dead.
func TestBridgeWaitsForTheServer(t *testing.T) {
	t.Parallel()
	answers := []problem.Code{problem.CoreUnavailable, problem.Unauthenticated, problem.TooManyLanes, problem.QueueFull, problem.Internal}
	s := newServer(t, func(w http.ResponseWriter, n int) {
		if n <= len(answers) {
			problem.New(answers[n-1], "not now").Write(w)
			return
		}
		stored(w)
	})
	f := commandtest.On(t, s.URL)
	q := f.Queue() + "-waits"
	url, channel := rabbit(f, q)
	send(f, channel, q, "only-one", `1`)
	w := f.With("FORGEQUEUE_BRIDGE_FROM", url).Process("--queue", q)
	f.Eventually("the message is submitted", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.keys) > len(answers)
	})
	_ = w.Process.Signal(syscall.SIGTERM)
	if err := w.Wait(); err != nil {
		f.Errorf("%v", err)
	}
	if depth(f, channel, q) != 0 || depth(f, channel, q+".dead") != 0 {
		f.Errorf("%d messages wait, %d are dead", depth(f, channel, q), depth(f, channel, q+".dead"))
	}
	for _, key := range s.keys {
		if key != "only-one" {
			f.Errorf("the key is %s", key)
		}
	}
}

// Told to stop, a bridge waits for the answers under way and acks their messages; the others are given back.
func TestBridgeGivesBackWhatIsNotAnswered(t *testing.T) {
	t.Parallel()
	stopping := make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, n int) {
		if n == 1 {
			<-stopping
			stored(w)
			return
		}
		problem.New(problem.CoreUnavailable, "not now").Write(w)
	})
	f := commandtest.On(t, s.URL)
	q := f.Queue() + "-stops"
	url, channel := rabbit(f, q)
	for i := range 30 {
		send(f, channel, q, fmt.Sprint(i), `1`)
	}
	w := f.With("FORGEQUEUE_BRIDGE_FROM", url).Process("--queue", q, "--prefetch", "5")
	f.Eventually("five messages are held", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.keys) >= 5 && depth(f, channel, q) == 25
	})
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		f.Fatal(err)
	}
	close(stopping)
	if err := w.Wait(); err != nil {
		f.Errorf("%v", err)
	}
	if n := depth(f, channel, q); n != 29 {
		f.Errorf("%d messages are there", n)
	}
}
