package admission

import (
	"context"
	"encoding/json"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// longestHint bounds a message of a channel, in bytes: a hint is input too.
	longestHint = 1024
	// silence is how long a subscription may be idle before the server gets a PING;
	// after as long again without an answer the subscription is given up.
	silence = 3 * time.Second
	// relisten is about how long to wait before another subscription is tried.
	relisten = 100 * time.Millisecond
)

// Subscriber gets notifications of changes. It must not block.
type Subscriber struct {
	// KeyRevoked gets the id of a key.
	KeyRevoked func(keyID string)
	// LimitsChanged gets whose limits have changed.
	LimitsChanged func(hop.LimitsChanged)
	// TypesChanged gets whose types of jobs have changed.
	TypesChanged func(hop.TypesChanged)
	// Missed is called whenever a subscription begins, the first one included:
	// notifications before that were lost.
	Missed func()
}

// Subscribe passes hints on until ctx ends. It resubscribes by itself. If a hint is lost
// while Redis is away, what is cached of a key is used until its look-up is 30 s
// old.
func (r *Redis) Subscribe(ctx context.Context, subscriber Subscriber) {
	if r.client == nil {
		<-ctx.Done()
		return
	}
	subscription := redisclient.Subscription{
		Channels: []string{hop.ChannelKeyRevoked, hop.ChannelLimitsChanged, hop.ChannelTypesChanged},
		Silence:  silence, Begun: subscriber.Missed, Message: subscriber.notify,
	}
	for ctx.Err() == nil {
		// The error is dropped: the limiter logs that Redis is away.
		_ = r.client.Listen(ctx, subscription)
		_ = wait.About(ctx, relisten)
	}
}

func (s Subscriber) notify(channel, payload string) {
	switch {
	case len(payload) > longestHint:
	case channel == hop.ChannelKeyRevoked:
		s.KeyRevoked(payload)
	case channel == hop.ChannelTypesChanged:
		var whose hop.TypesChanged
		if json.Unmarshal([]byte(payload), &whose) == nil {
			s.TypesChanged(whose)
		}
	default:
		var whose hop.LimitsChanged
		if json.Unmarshal([]byte(payload), &whose) == nil {
			s.LimitsChanged(whose)
		}
	}
}
