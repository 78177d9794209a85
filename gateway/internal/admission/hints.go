package admission

import (
	"context"
	"encoding/json"

	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/shared/api"
)

// longestHint bounds what is taken from a channel: a hint is input too.
const longestHint = 1024

// Hearer is told what is no longer as it was. It must not block.
type Hearer struct {
	// KeyRevoked hears the id of a key.
	KeyRevoked func(keyID string)
	// LimitsChanged hears whose limits are no longer what they were.
	LimitsChanged func(api.LimitsChanged)
	// Missed is called whenever a subscription begins, the first one included: what
	// was said before that was heard by nobody.
	Missed func()
}

// Hear hands hints on until ctx ends. It connects again by itself. A hint lost
// while Redis is away costs what it always costs: what is remembered of a key
// holds until its look-up is 30 s old.
func (r *Redis) Hear(ctx context.Context, hearer Hearer) {
	if r.client == nil {
		<-ctx.Done()
		return
	}
	subscription := r.client.Subscribe(ctx, api.ChannelKeyRevoked, api.ChannelLimitsChanged)
	defer func() { _ = subscription.Close() }() // nothing is owed to a channel of hints
	events := subscription.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-events:
			if !open {
				return
			}
			hearer.hear(event)
		}
	}
}

func (h Hearer) hear(event any) {
	message, ok := event.(*redis.Message)
	switch {
	case !ok:
		h.Missed()
	case len(message.Payload) > longestHint:
	case message.Channel == api.ChannelKeyRevoked:
		h.KeyRevoked(message.Payload)
	default:
		var whose api.LimitsChanged
		if json.Unmarshal([]byte(message.Payload), &whose) == nil {
			h.LimitsChanged(whose)
		}
	}
}
