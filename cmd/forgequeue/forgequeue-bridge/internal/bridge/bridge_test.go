package bridge

import (
	"errors"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestSources(t *testing.T) {
	t.Parallel()
	for text, shown := range map[string]string{
		"amqps://ada:p%40ss@rabbit.example.com/a%2Fb?vhost=x":               "amqps://rabbit.example.com/a%2Fb?vhost=x",
		"amqp://127.0.0.1:5672/orders":                                      "amqp://127.0.0.1:5672/orders",
		"sqs://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo":     "sqs://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo",
		"sqs+http://localhost:4566/000000000000/orders?region=eu-central-1": "sqs+http://localhost:4566/000000000000/orders?region=eu-central-1",
	} {
		source, err := Parse(text)
		if err != nil || source.String() != shown {
			t.Errorf("%s: %v, %v", text, source, err)
		}
	}
	for _, text := range []string{
		"", "orders", "redis://localhost/orders", "amqp://host", "amqp://host/", "amqp://host/a/b", "amqp://host/a?region=x", "amqp://host/%zz",
		"sqs://host/orders", "sqs://key:secret@host/1/orders", "sqs://host/1/orders?vhost=x", "amqp://u:p#@host/a",
	} {
		if source, err := Parse(text); err == nil {
			t.Errorf("%s is taken for %s", text, source)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
}

// What is wrong with one message makes it dead; what is wrong with the server, the key or a limit does not.
func TestRefusalsForGood(t *testing.T) {
	t.Parallel()
	for _, code := range []problem.Code{
		problem.InvalidJSON, problem.InvalidRequest, problem.PayloadTooLarge, problem.IdempotencyMismatch, problem.CostAboveBurst,
	} {
		if !forGood(problem.New(code, "x")) {
			t.Errorf("%s is tried again", code)
		}
	}
	for _, code := range []problem.Code{
		problem.TooManyLanes, problem.RateLimited, problem.ActiveCapReached, problem.QueueFull, problem.WouldWait, problem.Overloaded, problem.CoreUnavailable,
		problem.OutcomeUnknown, problem.Internal, problem.Unauthenticated, problem.Forbidden, problem.NotFound, problem.IdempotencyInFlight,
	} {
		if forGood(problem.New(code, "x")) {
			t.Errorf("%s makes messages dead", code)
		}
	}
	for _, err := range []error{errors.New("connection refused"), &client.StatusError{Status: 400}, &client.StatusError{Status: 502}} {
		if forGood(err) {
			t.Errorf("%v makes messages dead", err)
		}
	}
}

func TestPayloadsAndKeys(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{`{"a": 1}`: `{"a": 1}`, `[1]`: `[1]`, "hello": `"hello"`, "": `""`, "{": `"{"`} {
		if got, ok := payloadOf([]byte(body)); !ok || string(got) != want {
			t.Errorf("%q: %s", body, got)
		}
	}
	if _, ok := payloadOf([]byte{0xff}); ok {
		t.Error("bytes are taken for a text")
	}
	if keyOf("abc-1") != "abc-1" || !strings.HasPrefix(keyOf("a b"), "sha256:") || keyOf("a b") == keyOf("a c") || keyOf("") == "" ||
		!strings.HasPrefix(keyOf(strings.Repeat("x", 300)), "sha256:") {
		t.Error("keys")
	}
}

// Messages of a group stay in order, in one lane.
func TestLanes(t *testing.T) {
	t.Parallel()
	var messages []*message
	for _, one := range []string{"a1", "-1", "b1", "a2", "-2", "b2", "a3"} {
		messages = append(messages, &message{id: one, group: strings.TrimSuffix(one[:1], "-")})
	}
	var got []string
	for _, lane := range lanes(messages) {
		var ids []string
		for _, m := range lane {
			ids = append(ids, m.id)
		}
		got = append(got, strings.Join(ids, ","))
	}
	if all := strings.Join(got, " "); all != "a1,a2,a3 -1 b1,b2 -2" {
		t.Error(all)
	}
}
