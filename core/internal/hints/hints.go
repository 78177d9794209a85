// Package hints carries wake-ups between cores, and news to gateways, over Redis
// pub/sub. Nothing depends on one arriving: a lost wake-up costs a poll, a lost
// revocation the 30 s for which a key may be remembered.
package hints

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// backlog is how many hints may wait for Redis; more are dropped.
	backlog = 1024
	// sendTime is what one message may take.
	sendTime = 50 * time.Millisecond
	// alone is for how long nothing is said to other cores once a hint reached nobody else:
	// one core needs none, and two do without for that long.
	alone = 500 * time.Millisecond
	// lanesPerHint bounds a message; a poll finds the rest.
	lanesPerHint = 1000
)

// ready is the message on api.ChannelReady.
type ready struct {
	// From is the sender's mark, so that it does not wake itself.
	From string `json:"from"`
	// Lines are those in which jobs became ready, with the first of them.
	Lines []queue.Waiting `json:"lines,omitempty"`
	// Ended are jobs that have ended.
	Ended []uuid.UUID `json:"ended,omitempty"`
	// Settings says that a queue's settings have changed.
	Settings bool `json:"settings,omitempty"`
}

// Listener is told what other cores say.
type Listener struct {
	Ready    func([]queue.Waiting)
	Ended    func([]uuid.UUID)
	Settings func()
}

// Hints sends and receives.
type Hints struct {
	client redis.UniversalClient
	self   string
	out    chan message
	log    *slog.Logger
	// quiet is until when this core is thought to be alone, in Unix nanoseconds.
	quiet atomic.Int64
}

type message struct{ channel, payload string }

// New makes Hints over client. A nil client makes Hints that say and hear nothing.
// Several installations may share one Redis: a hint of another's lanes is looked
// up, found to be nothing, and forgotten.
func New(client redis.UniversalClient, log *slog.Logger) *Hints {
	return &Hints{client: client, self: rand.Text(), out: make(chan message, backlog), log: log}
}

// Ready tells other cores of jobs that became ready. It never blocks.
func (h *Hints) Ready(lines []queue.Waiting) {
	h.say(ready{Lines: lines[:min(len(lines), lanesPerHint)]})
}

// Ended tells other cores of jobs that have ended. It never blocks.
func (h *Hints) Ended(ids []uuid.UUID) { h.say(ready{Ended: ids[:min(len(ids), lanesPerHint)]}) }

// Settings tells other cores to read the queues' settings again. It never blocks.
func (h *Hints) Settings() { h.say(ready{Settings: true}) }

func (h *Hints) say(hint ready) {
	if h.client == nil || !hint.Settings && time.Now().UnixNano() < h.quiet.Load() {
		return
	}
	hint.From = h.self
	payload, err := json.Marshal(hint)
	if err == nil {
		h.send(api.ChannelReady, string(payload))
	}
}

// KeyRevoked tells gateways to forget a key. It never blocks.
func (h *Hints) KeyRevoked(keyID string) {
	if h.client != nil {
		h.send(api.ChannelKeyRevoked, keyID)
	}
}

// LimitsChanged tells gateways whose limits to read again. It never blocks.
func (h *Hints) LimitsChanged(whose api.LimitsChanged) {
	if h.client == nil {
		return
	}
	if payload, err := json.Marshal(whose); err == nil {
		h.send(api.ChannelLimitsChanged, string(payload))
	}
}

func (h *Hints) send(channel, payload string) {
	select {
	case h.out <- message{channel, payload}:
	default: // Redis is slow or gone; the polls do without
	}
}

// Run sends what is to be sent, and tells hear what other cores say, until
// ctx ends.
func (h *Hints) Run(ctx context.Context, hear Listener) error {
	if h.client == nil {
		return nil
	}
	var group sync.WaitGroup
	group.Go(func() { h.sendAll(ctx) })
	group.Go(func() { h.receive(ctx, hear) })
	group.Wait()
	return nil
}

func (h *Hints) sendAll(ctx context.Context) {
	_, oneNode := h.client.(*redis.Client)
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-h.out:
			limited, cancel := context.WithTimeout(ctx, sendTime)
			heard, err := h.client.Publish(limited, m.channel, m.payload).Result()
			cancel()
			// This core hears itself. In a cluster a node counts its own listeners only.
			if err == nil && m.channel == api.ChannelReady && heard <= 1 && oneNode {
				h.quiet.Store(time.Now().Add(alone).UnixNano())
			}
			if failed := err != nil && ctx.Err() == nil; failed != failing {
				failing = failed
				h.log.WarnContext(ctx, "hints to other processes", "lost", failing, "error", err)
			}
		}
	}
}

// receive hears other cores. go-redis subscribes anew by itself after a loss.
func (h *Hints) receive(ctx context.Context, hear Listener) {
	subscription := h.client.Subscribe(ctx, api.ChannelReady)
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case m, open := <-messages:
			if !open {
				return
			}
			var hint ready
			if json.Unmarshal([]byte(m.Payload), &hint) == nil && hint.From != h.self {
				hear.tell(hint)
			}
		}
	}
}

func (l Listener) tell(hint ready) {
	if hint.Settings && l.Settings != nil {
		l.Settings()
	}
	if len(hint.Lines) > 0 && l.Ready != nil {
		l.Ready(hint.Lines)
	}
	if len(hint.Ended) > 0 && l.Ended != nil {
		l.Ended(hint.Ended)
	}
}
