package admission

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/shared/api"
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
	LimitsChanged func(api.LimitsChanged)
	// TypesChanged gets whose types of jobs have changed.
	TypesChanged func(api.TypesChanged)
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
	for ctx.Err() == nil {
		// The error is dropped: the limiter logs that Redis is away.
		_ = fenced(func() error { return r.listen(ctx, subscriber) })
		_ = wait.About(ctx, relisten)
	}
}

// listen passes on the hints of one subscription, until it breaks. It reads in this
// goroutine: the library's own would panic on an unexpected reply, and so end the
// process.
func (r *Redis) listen(ctx context.Context, subscriber Subscriber) error {
	subscription := r.client.Subscribe(ctx, api.ChannelKeyRevoked, api.ChannelLimitsChanged, api.ChannelTypesChanged)
	hangUp := sync.OnceFunc(func() { _ = subscription.Close() }) // hints may be lost
	defer hangUp()
	// a read is not interrupted by its context
	stop := context.AfterFunc(ctx, hangUp)
	defer stop()
	asked := false // whether the server still lives
	for {
		event, err := subscription.ReceiveTimeout(ctx, silence)
		late, isNet := errors.AsType[net.Error](err)
		switch {
		case err == nil:
			asked = false
			subscriber.notify(event)
		case isNet && late.Timeout() && !asked && ctx.Err() == nil:
			asked = true
			if err := subscription.Ping(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (s Subscriber) notify(event any) {
	message, ok := event.(*redis.Message)
	_, begun := event.(*redis.Subscription)
	switch {
	case begun:
		s.Missed()
	case !ok: // a pong
	case len(message.Payload) > longestHint:
	case message.Channel == api.ChannelKeyRevoked:
		s.KeyRevoked(message.Payload)
	case message.Channel == api.ChannelTypesChanged:
		var whose api.TypesChanged
		if json.Unmarshal([]byte(message.Payload), &whose) == nil {
			s.TypesChanged(whose)
		}
	default:
		var whose api.LimitsChanged
		if json.Unmarshal([]byte(message.Payload), &whose) == nil {
			s.LimitsChanged(whose)
		}
	}
}
