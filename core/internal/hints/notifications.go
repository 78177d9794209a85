package hints

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// notificationLife is for how long notifications are repeated: no gateway caches a key, or its limits,
	// for longer.
	notificationLife = 30 * time.Second
	// notificationTime bounds one message. Hints do not wait for it.
	notificationTime = 500 * time.Millisecond
	// notificationPause is the pause before a notification that Redis did not accept is repeated.
	notificationPause = 100 * time.Millisecond
)

// notifications are notifications to gateways, in order of arrival. One that is added twice before it is
// sent is sent once. Their number is bounded by the administrative actions within notificationLife.
type notifications struct {
	mu      sync.Mutex
	waiting []message
	until   map[message]time.Time
	more    chan struct{} // holds one value when there may be an unsent one
}

func newNotifications() notifications {
	return notifications{until: map[message]time.Time{}, more: make(chan struct{}, 1)}
}

func (n *notifications) add(m message) {
	n.mu.Lock()
	if _, waits := n.until[m]; !waits {
		n.waiting = append(n.waiting, m)
	}
	n.until[m] = time.Now().Add(notificationLife)
	n.mu.Unlock()
	select {
	case n.more <- struct{}{}:
	default:
	}
}

// first gives the next notification, and when it expires.
func (n *notifications) first() (m message, until time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		return message{}, time.Time{}, false
	}
	return n.waiting[0], n.until[n.waiting[0]], true
}

// take removes the first, unless it was added again since: a receiver may have read its data before
// the second change.
func (n *notifications) take(until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.waiting[0]; n.until[m].Equal(until) {
		n.waiting = n.waiting[1:]
		delete(n.until, m)
	}
}

// KeyRevoked makes gateways drop a key from their cache, and end its parked calls if it is no longer valid. It never blocks.
func (h *Hints) KeyRevoked(keyID string) {
	if h.client != nil {
		h.notifications.add(message{hop.ChannelKeyRevoked, keyID})
	}
}

// LimitsChanged makes gateways read limits again. It never blocks.
func (h *Hints) LimitsChanged(change hop.LimitsChanged) {
	if h.client == nil {
		return
	}
	if payload, err := json.Marshal(change); err == nil {
		h.notifications.add(message{hop.ChannelLimitsChanged, string(payload)})
	}
}

// TypesChanged makes gateways read a tenant's types of jobs again. It never blocks.
func (h *Hints) TypesChanged(change hop.TypesChanged) {
	if h.client == nil {
		return
	}
	if payload, err := json.Marshal(change); err == nil {
		h.notifications.add(message{hop.ChannelTypesChanged, string(payload)})
	}
}

// sendNotifications sends until ctx ends, and then the rest, once.
func (h *Hints) sendNotifications(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			h.sendWaiting(context.WithoutCancel(ctx), true)
			return
		case <-h.notifications.more:
			h.sendWaiting(ctx, false)
		}
	}
}

// sendWaiting sends in order; with last, it stops at the first failure instead of repeating it.
func (h *Hints) sendWaiting(ctx context.Context, last bool) {
	for ctx.Err() == nil {
		m, until, ok := h.notifications.first()
		if !ok {
			return
		}
		_, err := h.publish(ctx, m, notificationTime)
		switch {
		case err == nil || time.Now().After(until):
			h.notifications.take(until)
		case last:
			return
		default:
			_ = wait.For(ctx, notificationPause)
		}
	}
}
