// Package hints carries wake-ups between cores, and news to gateways, over Redis
// pub/sub. Nothing depends on one arriving: a lost wake-up costs a poll, a lost
// revocation the 30 s for which a key may be remembered.
//
// The two have nothing in common but the server. Wake-ups are many, and dropped where
// Redis is slow. News, of a key that was revoked and of limits that have changed, are
// few: they have a line and a sender of their own, and are repeated until Redis takes
// them or they are of no more use.
package hints

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/resp"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// backlog is how many hints may wait for Redis; more are dropped.
	backlog = 1024
	// sendTime is what one message may take.
	sendTime = 50 * time.Millisecond
	// alone is for how long nothing is said to other cores once a hint reached nobody else:
	// one core needs none, and two do without for that long.
	alone = 500 * time.Millisecond
	// silence is how long a subscription may be quiet before the server is asked whether
	// it is there; after as long again without an answer the subscription is given up.
	silence = 3 * time.Second
	// relisten is about how long to wait before another subscription is tried.
	relisten = 100 * time.Millisecond
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
	news   news
	log    *slog.Logger
	// quiet is until when this core is thought to be alone, in Unix nanoseconds.
	quiet atomic.Int64
}

type message struct{ channel, payload string }

// New makes Hints over client. A nil client makes Hints that say and hear nothing.
// Several installations may share one Redis: a hint of another's lanes is looked
// up, found to be nothing, and forgotten.
func New(client redis.UniversalClient, log *slog.Logger) *Hints {
	return &Hints{client: client, self: rand.Text(), out: make(chan message, backlog), news: newNews(), log: log}
}

// Connect makes a client for Hints, which bound what they ask by time. What the server
// says is checked before the library reads it. It does not dial yet.
func Connect(options *redis.Options) redis.UniversalClient {
	options.ContextTimeoutEnabled = true
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = 150*time.Millisecond, time.Second, time.Second
	options.MaxRetries = -1
	dial := redis.NewDialer(options)
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return resp.Checked(conn), nil
	}
	return redis.NewClient(options)
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
	group.Go(func() { h.sendNews(ctx) })
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
			heard, err := h.publish(ctx, m, sendTime)
			// This core hears itself. In a cluster a node counts its own listeners only.
			if err == nil && heard <= 1 && oneNode {
				h.quiet.Store(time.Now().Add(alone).UnixNano())
			}
			if failed := err != nil && ctx.Err() == nil; failed != failing {
				failing = failed
				h.log.WarnContext(ctx, "hints to other processes", "lost", failing, "error", err)
			}
		}
	}
}

// publish says one message within a time and gives how many heard it. A panic of the
// library is an error like any other.
func (h *Hints) publish(ctx context.Context, m message, within time.Duration) (heard int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	defer fence(&err)
	return h.client.Publish(ctx, m.channel, m.payload).Result()
}

// fence makes a panic of the caller's its error: the library must not end the process,
// whatever Redis says.
func fence(err *error) {
	if failure := recover(); failure != nil { //nolint:revive // its callers defer it
		*err = fmt.Errorf("redis client: panic: %v", failure)
	}
}

// receive hears other cores, and subscribes again after a loss.
func (h *Hints) receive(ctx context.Context, hear Listener) {
	for ctx.Err() == nil {
		_ = h.listen(ctx, hear) // what is lost meanwhile costs a poll
		_ = wait.About(ctx, relisten)
	}
}

// listen hands on what one subscription brings, until it breaks. It reads in this
// goroutine: the library's own would end the process where the server says what it
// does not expect.
func (h *Hints) listen(ctx context.Context, hear Listener) (err error) {
	defer fence(&err)
	subscription := h.client.Subscribe(ctx, api.ChannelReady)
	hangUp := sync.OnceFunc(func() { _ = subscription.Close() })
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
			h.heard(event, hear)
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

func (h *Hints) heard(event any, hear Listener) {
	message, ok := event.(*redis.Message)
	var hint ready
	if ok && json.Unmarshal([]byte(message.Payload), &hint) == nil && hint.From != h.self {
		hear.tell(hint)
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
