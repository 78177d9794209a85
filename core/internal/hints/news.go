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
	// newsLife is for how long news are repeated: no gateway remembers a key, or its
	// limits, for longer.
	newsLife = 30 * time.Second
	// newsTime is what one message may take. Nobody else waits behind it.
	newsTime = 500 * time.Millisecond
	// newsAgain is how long to wait before news that Redis did not take are repeated.
	newsAgain = 100 * time.Millisecond
)

// news are what gateways must hear of, in the order of its coming. What is said twice
// before it is sent is sent once. There are no more of them than an operator makes
// within newsLife.
type news struct {
	mu    sync.Mutex
	line  []message
	until map[message]time.Time
	more  chan struct{} // holds one where there may be something in line
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

// first gives what is next, and until when it is of use.
func (n *news) first() (m message, until time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.line) == 0 {
		return message{}, time.Time{}, false
	}
	return n.line[0], n.until[n.line[0]], true
}

// take takes out the first, unless it was said again meanwhile: whoever heard the
// sending may have looked before the second saying.
func (n *news) take(until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.line[0]; n.until[m].Equal(until) {
		n.line = n.line[1:]
		delete(n.until, m)
	}
}

// KeyRevoked tells gateways to forget a key, and to end what its holder has parked.
// It never blocks.
func (h *Hints) KeyRevoked(keyID string) {
	if h.client != nil {
		h.news.add(message{api.ChannelKeyRevoked, keyID})
	}
}

// LimitsChanged tells gateways whose limits to read again. It never blocks.
func (h *Hints) LimitsChanged(whose api.LimitsChanged) {
	if h.client == nil {
		return
	}
	if payload, err := json.Marshal(whose); err == nil {
		h.news.add(message{api.ChannelLimitsChanged, string(payload)})
	}
}

// sendNews sends until ctx ends, and then what is left, once.
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

// sayNews sends what is in line, in order; what Redis does not take again and again,
// unless it is the last time.
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
