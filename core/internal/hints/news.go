package hints

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// newsLife is for how long notifications are repeated: no gateway caches a key, or its limits,
	// for longer.
	newsLife = 30 * time.Second
	// newsTime bounds one message. Hints do not wait for it.
	newsTime = 500 * time.Millisecond
	// newsAgain is the pause before a notification that Redis did not accept is repeated.
	newsAgain = 100 * time.Millisecond
)

// news are notifications to gateways, in order of arrival. One that is added twice before it is
// sent is sent once. Their number is bounded by the administrative actions within newsLife.
type news struct {
	mu    sync.Mutex
	line  []message
	until map[message]time.Time
	more  chan struct{} // holds one value when there may be an unsent one
}

func newNews() news { return news{until: map[message]time.Time{}, more: make(chan struct{}, 1)} }

func (n *news) add(m message) {
	n.mu.Lock()
	if _, waits := n.until[m]; !waits {
		n.line = append(n.line, m)
	}
	n.until[m] = time.Now().Add(newsLife)
	n.mu.Unlock()
	select {
	case n.more <- struct{}{}:
	default:
	}
}

// first gives the next notification, and when it expires.
func (n *news) first() (m message, until time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.line) == 0 {
		return message{}, time.Time{}, false
	}
	return n.line[0], n.until[n.line[0]], true
}

// take removes the first, unless it was added again since: a receiver may have read its data before
// the second change.
func (n *news) take(until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.line[0]; n.until[m].Equal(until) {
		n.line = n.line[1:]
		delete(n.until, m)
	}
}

// KeyRevoked makes gateways drop a key from their cache, and end its parked calls. It never blocks.
func (h *Hints) KeyRevoked(keyID string) {
	if h.client != nil {
		h.news.add(message{api.ChannelKeyRevoked, keyID})
	}
}

// LimitsChanged makes gateways read limits again. It never blocks.
func (h *Hints) LimitsChanged(whose api.LimitsChanged) {
	if h.client == nil {
		return
	}
	if payload, err := json.Marshal(whose); err == nil {
		h.news.add(message{api.ChannelLimitsChanged, string(payload)})
	}
}

// sendNews sends until ctx ends, and then the rest, once.
func (h *Hints) sendNews(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			h.sayNews(context.WithoutCancel(ctx), true)
			return
		case <-h.news.more:
			h.sayNews(ctx, false)
		}
	}
}

// sayNews sends in order; with last, it stops at the first failure instead of repeating it.
func (h *Hints) sayNews(ctx context.Context, last bool) {
	for ctx.Err() == nil {
		m, until, ok := h.news.first()
		if !ok {
			return
		}
		_, err := h.publish(ctx, m, newsTime)
		switch {
		case err == nil || time.Now().After(until):
			h.news.take(until)
		case last:
			return
		default:
			_ = wait.For(ctx, newsAgain)
		}
	}
}
