package main

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// standIn answers as SQS does (JSON protocol), for one queue. A message that was received is invisible until its
// visibility is set to 0; one of a group is not received while one before it is there and invisible.
type standIn struct {
	*httptest.Server
	mu       sync.Mutex
	messages []*held
	// visibilities are those that were set, by message.
	visibilities map[string][]int
	changed      chan struct{}
}

type held struct {
	id, body, group string
	invisible, gone bool
}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	s := &standIn{visibilities: map[string][]int{}, changed: make(chan struct{}, 1)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) from() string {
	return "sqs+" + s.URL + "/000000000000/orders.fifo?region=eu-central-1"
}

func (s *standIn) send(id, body, group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, &held{id: id, body: body, group: group})
}

type sqsRequest struct {
	MaxNumberOfMessages, VisibilityTimeout int
	ReceiptHandle                          string
	Entries                                []struct{ ID, ReceiptHandle string }
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request) {
	var request sqsRequest
	_ = json.NewDecoder(r.Body).Decode(&request)
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	s.mu.Lock()
	var answer any
	switch operation {
	case "ReceiveMessage":
		answer = s.receive(request.MaxNumberOfMessages)
	case "DeleteMessageBatch":
		var done []map[string]string
		for _, entry := range request.Entries {
			s.of(entry.ReceiptHandle).gone = true
			done = append(done, map[string]string{"Id": entry.ID})
		}
		answer = map[string]any{"Successful": done, "Failed": []string{}}
	case "ChangeMessageVisibility":
		m := s.of(request.ReceiptHandle)
		m.invisible = request.VisibilityTimeout > 0
		s.visibilities[m.id] = append(s.visibilities[m.id], request.VisibilityTimeout)
		answer = struct{}{}
	default:
		answer = map[string]any{"Attributes": map[string]string{"QueueArn": "arn:aws:sqs:eu-central-1:000000000000:orders.fifo"}}
	}
	s.mu.Unlock()
	if messages, isReceive := answer.(map[string]any); isReceive && messages["Messages"] != nil && len(messages["Messages"].([]any)) == 0 {
		select { // a long poll, a short one
		case <-r.Context().Done():
		case <-s.changed:
		}
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *standIn) of(receipt string) *held {
	for _, m := range s.messages {
		if "receipt-"+m.id == receipt {
			return m
		}
	}
	return &held{}
}

func (s *standIn) receive(most int) map[string]any {
	messages, blocked := []any{}, map[string]bool{}
	for _, m := range s.messages {
		switch {
		case m.gone:
		case m.invisible || blocked[m.group] || len(messages) == most:
			if m.group != "" {
				blocked[m.group] = true
			}
		default:
			m.invisible = true
			sum := md5.Sum([]byte(m.body))
			messages = append(messages, map[string]any{
				"MessageId": m.id, "ReceiptHandle": "receipt-" + m.id, "Body": m.body, "MD5OfBody": hex.EncodeToString(sum[:]),
				"Attributes": map[string]string{"MessageGroupId": m.group},
			})
		}
	}
	return map[string]any{"Messages": messages}
}

func (s *standIn) left() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if !m.gone {
			n++
		}
	}
	select { // a receive that waits looks again
	case s.changed <- struct{}{}:
	default:
	}
	return n
}

func bridgeFromSQS(f *commandtest.Fixture, s *standIn, queue string) (stop func()) {
	f.Helper()
	w := f.With("AWS_ACCESS_KEY_ID", "a").With("AWS_SECRET_ACCESS_KEY", "b").With("AWS_EC2_METADATA_DISABLED", "true").
		Process("--from", s.from(), "--queue", queue, "--type", "order", "--prefetch", "40")
	return func() {
		f.Helper()
		if err := w.Process.Signal(syscall.SIGTERM); err != nil {
			f.Fatal(err)
		}
		if err := w.Wait(); err != nil {
			f.Errorf("%v", err)
		}
	}
}

// Each message becomes one job, those of a FIFO group in order; one that is refused stays, for the redrive policy.
func TestBridgeFromSQS(t *testing.T) {
	f := commandtest.New(t)
	s, q := newStandIn(t), f.Queue()
	for i := range 30 {
		for _, group := range []string{"a", "b", "c"} {
			s.send(fmt.Sprintf("%s-%s-%d", q, group, i), fmt.Sprintf(`{"group":%q,"n":%d}`, group, i), group)
		}
	}
	s.send(q+"-bad", `{"a":1,"a":2}`, "d")
	s.send(q+"-behind", `1`, "d")
	stop := bridgeFromSQS(f, s, q)
	f.Eventually("all messages but the refused one and the one behind it are deleted", func() bool { return s.left() == 2 })
	stop()
	claimed, err := f.Client().Claim(f.Context(), api.ClaimRequest{WorkerID: "w" + q, Queues: []string{q}, Max: new(200)})
	if err != nil || len(claimed.Jobs) != 90 {
		f.Fatalf("%d jobs, %v", len(claimed.Jobs), err)
	}
	next := map[string]int{}
	for i := range claimed.Jobs {
		var payload struct {
			Group string
			N     int
		}
		if err := json.Unmarshal(claimed.Jobs[i].Payload, &payload); err != nil || payload.N != next[payload.Group] {
			f.Fatalf("%s comes instead of %d", claimed.Jobs[i].Payload, next[payload.Group])
		}
		next[payload.Group]++
	}
	more, err := f.Client().List(f.Context(), api.JobFilter{Queue: q}, client.PageRequest{Size: 200})
	if err != nil || len(more.Items) != 90 {
		f.Errorf("%d jobs, %v", len(more.Items), err)
	}
}

// While the server is away a message is kept invisible, so that it is not received again and again; told to stop, the
// bridge makes it visible at once.
func TestBridgeHoldsWhatWaits(t *testing.T) {
	t.Parallel()
	gateway := newServer(t, func(w http.ResponseWriter, _ int) { problem.New(problem.CoreUnavailable, "not now").Write(w) })
	f := commandtest.On(t, gateway.URL)
	s := newStandIn(t)
	s.send("first", `1`, "a")
	s.send("second", `2`, "a")
	stop := bridgeFromSQS(f, s, "q")
	f.Eventually("the message is held", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.visibilities["first"]) == 1
	})
	stop()
	if got := fmt.Sprint(s.visibilities["first"], s.visibilities["second"]); got != "[600 0] [0]" || s.left() != 2 {
		f.Errorf("the visibilities are %s, %d messages are there", got, s.left())
	}
	for _, key := range gateway.keys {
		if key != "first" {
			f.Errorf("%s has overtaken the first", key)
		}
	}
}
