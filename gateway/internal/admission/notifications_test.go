package admission_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ear keeps what was heard. It has room for all that a test says.
type ear struct {
	revoked chan string
	changed chan hop.LimitsChanged
	missed  chan struct{}
}

func newEar() *ear {
	return &ear{make(chan string, 10_000), make(chan hop.LimitsChanged, 10_000), make(chan struct{}, 10_000)}
}

func (e *ear) subscriber() admission.Subscriber {
	return admission.Subscriber{
		KeyRevoked:    func(id string) { e.revoked <- id },
		LimitsChanged: func(whose hop.LimitsChanged) { e.changed <- whose },
		Missed:        func() { e.missed <- struct{}{} },
	}
}

// within gives what comes, or ends the test.
func within[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(hang):
		t.Fatal("nothing was heard")
		panic("not reached")
	}
}

func TestHear(t *testing.T) {
	t.Parallel()
	server := startRedis(t) // of its own: its subscriptions are cut
	r := connect(t, server.URL())
	ctx, stop := context.WithCancel(t.Context())
	e := newEar()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Subscribe(ctx, e.subscriber())
	}()
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	publisher := redis.NewClient(options)
	defer publisher.Close()
	say := func(channel, payload string) {
		t.Helper()
		if err := publisher.Publish(t.Context(), channel, payload).Err(); err != nil {
			t.Fatal(err)
		}
	}

	for range 2 {
		for range 2 { // one for each channel: then both stand
			within(t, e.missed)
		}
		say(hop.ChannelKeyRevoked, strings.Repeat("x", 2000))
		say(hop.ChannelLimitsChanged, "no JSON")
		key, whose := uuid.NewString(), hop.LimitsChanged{Tenant: uuid.NewString()}
		text, err := json.Marshal(whose)
		if err != nil {
			t.Fatal(err)
		}
		say(hop.ChannelKeyRevoked, key)
		say(hop.ChannelLimitsChanged, string(text))
		if got := within(t, e.revoked); got != key {
			t.Errorf("heard of key %.50q", got)
		}
		if got := within(t, e.changed); got != whose {
			t.Errorf("heard of %+v", got)
		}
		// The server cuts the subscription; it must come back by itself, and say so.
		if err := publisher.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	<-ended
}

func TestHearWithoutRedisEnds(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	e := newEar()
	connect(t, "").Subscribe(ctx, e.subscriber())
	connect(t, "redis://127.0.0.1:1").Subscribe(ctx, e.subscriber())
	if len(e.revoked)+len(e.changed)+len(e.missed) > 0 {
		t.Error("heard something")
	}
}
