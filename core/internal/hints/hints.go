// Package hints carries wake-ups between cores, and notifications to gateways, over Redis pub/sub.
// Delivery is not guaranteed: a lost wake-up costs a poll, a lost revocation the 30 s for which a
// key may be cached.
//
// The two share only the server. Wake-ups are many, and dropped when Redis is slow. Notifications,
// of a revoked key and of changed limits, are few: they have a queue and a sender of their own, and
// are repeated until Redis accepts them or they expire.
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

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// backlog is how many hints may wait for Redis; more are dropped.
	backlog = 1024
	// sendTime bounds one message.
	sendTime = 50 * time.Millisecond
	// aloneFor is for how long nothing is sent to other cores once a hint had no other receiver: one
	// core needs none, and a second core waits for that long.
	aloneFor = 500 * time.Millisecond
	// silence is how long a subscription may be silent before a ping; after as long again without
	// an answer the subscription is closed.
	silence = 3 * time.Second
	// resubscribePause is about the pause before another subscription.
	resubscribePause = 100 * time.Millisecond
	// lanesPerHint bounds a message; a fallback poll finds the rest.
	lanesPerHint = 1000
	// lostFor is for how long every hint must be lost before the log says so. The first one often is: it includes the
	// connection, on a machine that starts other processes.
	lostFor = time.Second
	// steadyAfter is for how long hints must have arrived, and been sent, for others to rely on it. It is longer than aloneFor:
	// what other cores did not send meanwhile is no longer looked for after that.
	steadyAfter = 2 * time.Second
	// tellAfter is the pause before others are told again that they were not told.
	tellAfter = 250 * time.Millisecond
	// identifyPause is about the pause before the database is asked again who it is.
	identifyPause = time.Second
)

// ready is the message between the cores of one database.
type ready struct {
	// From identifies the sender, so that it does not wake itself.
	From string `json:"from"`
	// Lists are the lists in which jobs became ready, with the first of them.
	Lists []jobs.Waiting `json:"lines,omitempty"`
	// Ended are jobs that have ended.
	Ended []uuid.UUID `json:"ended,omitempty"`
	// Settings says that settings of queues, or schedules, changed.
	Settings bool `json:"settings,omitempty"`
	// Lost says that hints before this one were lost.
	Lost bool `json:"lost,omitzero"`
	// Left is a worker that said goodbye; nil for none.
	Left *worker `json:"left,omitempty"`
}

// worker names a worker.
type worker struct {
	Owner uuid.UUID `json:"owner"`
	ID    string    `json:"worker_id"`
}

// Listener handles the hints of other cores.
type Listener struct {
	Ready    func([]jobs.Waiting)
	Ended    func([]uuid.UUID)
	Settings func()
	Left     func(owner uuid.UUID, workerID string)
}

// Hints sends and receives.
type Hints struct {
	client        *redisclient.Client
	self          string
	database      func(context.Context) (string, error)
	out           chan string
	notifications notifications
	log           *slog.Logger
	// quiet is until when this core is assumed to be alone, in Unix nanoseconds.
	quiet atomic.Int64
	// since is when the hints of other cores began to arrive, in Unix nanoseconds; zero while they do not.
	since atomic.Int64
	// dropped says that hints were dropped before they were sent.
	dropped atomic.Bool
}

type message struct{ channel, payload string }

// New makes Hints over client for the cores of one database. A nil client makes Hints that send and receive nothing.
//
// Several installations and cells may share one Redis. Lanes have numbers of their own in each database, so its cores have
// a channel of their own: database gives its identity, and is asked until it does.
func New(database func(context.Context) (string, error), client *redisclient.Client, log *slog.Logger) *Hints {
	return &Hints{
		client: client, self: rand.Text(), database: database, out: make(chan string, backlog), notifications: newNotifications(), log: log,
	}
}

// Connect makes a client for Hints, which set their own timeouts. It does not dial yet.
func Connect(url string) (*redisclient.Client, error) {
	return redisclient.Open(url, redisclient.Options{DialTimeout: 150 * time.Millisecond, ReadTimeout: time.Second, WriteTimeout: time.Second})
}

// Arrive says whether the hints of other cores are likely to arrive: this core has listened for a while, and Redis took
// what it sent, and no other core says that it lost some. A Redis that stands still is noticed after two times silence.
func (h *Hints) Arrive() bool {
	since := h.since.Load()
	return since != 0 && time.Since(time.Unix(0, since)) >= steadyAfter
}

// Ready notifies other cores of jobs that became ready. It never blocks.
func (h *Hints) Ready(lists []jobs.Waiting) {
	h.publishHint(ready{Lists: lists[:min(len(lists), lanesPerHint)]})
}

// Ended notifies other cores of jobs that have ended. It never blocks.
func (h *Hints) Ended(ids []uuid.UUID) {
	h.publishHint(ready{Ended: ids[:min(len(ids), lanesPerHint)]})
}

// Settings makes other cores read the queues' settings again. It never blocks.
func (h *Hints) Settings() { h.publishHint(ready{Settings: true}) }

// Left makes other cores end the claims of a worker that said goodbye. It never blocks.
func (h *Hints) Left(owner uuid.UUID, workerID string) {
	h.publishHint(ready{Left: &worker{owner, workerID}})
}

func (h *Hints) publishHint(hint ready) {
	// A hint that no poll makes up for soon is sent even if this core seems to be alone.
	if h.client == nil || !hint.Settings && hint.Left == nil && time.Now().UnixNano() < h.quiet.Load() {
		return
	}
	hint.From = h.self
	payload, err := json.Marshal(hint)
	if err != nil {
		return
	}
	select {
	case h.out <- string(payload):
	default: // Redis is slow or down; the polls find it
		h.dropped.Store(true)
	}
}

// Run sends hints and notifications, and calls listener with the hints of other cores, until ctx ends.
func (h *Hints) Run(ctx context.Context, listener Listener) error {
	if h.client == nil {
		return nil
	}
	var group sync.WaitGroup
	group.Go(func() { h.sendNotifications(ctx) })
	if channel := h.channel(ctx); channel != "" {
		group.Go(func() { h.sendHints(ctx, channel) })
		group.Go(func() { h.receive(ctx, channel, listener) })
	}
	group.Wait()
	return nil
}

// channel is that of the cores of one database; "" if ctx ends before that is known.
func (h *Hints) channel(ctx context.Context) string {
	for ctx.Err() == nil {
		identity, err := h.database(ctx)
		if err == nil {
			return hop.ChannelReady + ":" + identity
		}
		_ = wait.About(ctx, identifyPause) // the duties log that it does not answer
	}
	return ""
}

func (h *Hints) sendHints(ctx context.Context, channel string) {
	oneNode := h.client.OneNode()
	lost, err := json.Marshal(ready{From: h.self, Lost: true})
	if err != nil {
		return
	}
	var losses losses
	untold := false // hints were lost, and the other cores do not know
	for {
		var again <-chan time.Time
		if untold = untold || h.dropped.Swap(false); untold {
			again = time.After(tellAfter)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
			_, err := h.publish(ctx, message{channel, string(lost)}, sendTime)
			untold = err != nil
		case hint := <-h.out:
			receivers, err := h.publish(ctx, message{channel, hint}, sendTime)
			untold = untold || err != nil
			// This core receives its own hints. In a cluster a node counts only its own receivers.
			if err == nil && receivers <= 1 && oneNode {
				h.quiet.Store(time.Now().Add(aloneFor).UnixNano())
			}
			if err != nil {
				h.unsteady()
			}
			if losses.note(err != nil && ctx.Err() == nil, time.Now()) {
				h.log.WarnContext(ctx, "hints to other processes", "lost", losses.said, "error", err)
			}
		}
	}
}

// unsteady makes Arrive wait for steadyAfter again.
func (h *Hints) unsteady() {
	if since := h.since.Load(); since != 0 {
		h.since.CompareAndSwap(since, time.Now().UnixNano())
	}
}

// losses says when the log is to say that hints are lost, or no longer.
type losses struct {
	// since is when the first of the hints that were lost in a row was; zero after one that was sent.
	since time.Time
	// said: the last line says that hints are lost.
	said bool
}

// note takes whether a hint was lost, and reports whether said has changed.
func (l *losses) note(lost bool, now time.Time) (changed bool) {
	switch {
	case !lost:
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = now
	}
	said := l.said
	l.said = lost && (said || now.Sub(l.since) >= lostFor)
	return l.said != said
}

// publish sends one message within a time and gives the number of receivers.
func (h *Hints) publish(ctx context.Context, m message, within time.Duration) (receivers int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return h.client.Publish(ctx, m.channel, m.payload)
}

// receive handles hints of other cores, and subscribes again after a loss.
func (h *Hints) receive(ctx context.Context, channel string, listener Listener) {
	subscription := redisclient.Subscription{
		Channels: []string{channel}, Silence: silence,
		Begun:   func() { h.since.Store(time.Now().UnixNano()) },
		Message: func(_, payload string) { h.handle(payload, listener) },
	}
	for ctx.Err() == nil {
		_ = h.client.Listen(ctx, subscription) // a hint lost before the next one costs a poll
		h.since.Store(0)
		_ = wait.About(ctx, resubscribePause)
	}
}

func (h *Hints) handle(payload string, listener Listener) {
	var hint ready
	if json.Unmarshal([]byte(payload), &hint) == nil && hint.From != h.self {
		if hint.Lost {
			h.unsteady()
		}
		listener.handle(hint)
	}
}

func (l Listener) handle(hint ready) {
	if hint.Settings && l.Settings != nil {
		l.Settings()
	}
	if hint.Left != nil && l.Left != nil {
		l.Left(hint.Left.Owner, hint.Left.ID)
	}
	if len(hint.Lists) > 0 && l.Ready != nil {
		l.Ready(hint.Lists)
	}
	if len(hint.Ended) > 0 && l.Ended != nil {
		l.Ended(hint.Ended)
	}
}
