package admission

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/api"
)

// longestKeyID bounds what is taken from the channel: a hint is input too.
const longestKeyID = 64

// Revocations calls forget with the id of each key that is revoked, until ctx
// ends. It connects again by itself. A hint lost while Redis is away costs what
// it always costs: the key works until its look-up is 30 s old.
func (r *Redis) Revocations(ctx context.Context, forget func(keyID string)) {
	if r.client == nil {
		<-ctx.Done()
		return
	}
	subscription := r.client.Subscribe(ctx, api.ChannelKeyRevoked)
	defer func() { _ = subscription.Close() }() // nothing is owed to a channel of hints
	messages := subscription.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case message, open := <-messages:
			if !open {
				return
			}
			if len(message.Payload) <= longestKeyID {
				forget(message.Payload)
			}
		}
	}
}
