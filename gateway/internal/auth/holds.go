package auth

import (
	"context"
	"sync"
	"time"
)

const (
	// askAgain is how long to wait before a key is looked up again that core could not
	// say anything of.
	askAgain = time.Second
	// minHold keeps a key that is about to expire from being asked for in a spin.
	minHold = 10 * time.Millisecond
)

// holds are the requests that wait for something while their key may be revoked.
// What has let them in is looked at again whenever what is remembered of the key is
// no longer believed: after a hint, when the key expires, and at the latest foundLife
// after its last look-up.
type holds struct {
	mu    sync.Mutex
	byKey map[string]*heldKey
}

type heldKey struct {
	// ends are called when the key is no longer good; each request has its own.
	ends map[*func()]struct{}
	// again, which holds one, has the key looked at now.
	again chan struct{}
	stop  context.CancelFunc
}

// Hold calls end once if the key is revoked, or expires, before release. It serves a
// request that Authenticate has let in and that goes on for longer than a moment.
func (a *Authenticator) Hold(ctx context.Context, keyID string, end func()) (release func()) {
	a.holds.mu.Lock()
	defer a.holds.mu.Unlock()
	held := a.holds.byKey[keyID]
	if held == nil {
		watching, stop := context.WithCancel(context.WithoutCancel(ctx))
		held = &heldKey{ends: map[*func()]struct{}{}, again: make(chan struct{}, 1), stop: stop}
		if a.holds.byKey == nil {
			a.holds.byKey = map[string]*heldKey{}
		}
		a.holds.byKey[keyID] = held
		go a.watch(watching, keyID, held)
	} else {
		held.look() // it may have been revoked since it let this request in
	}
	held.ends[&end] = struct{}{}
	return func() {
		a.holds.mu.Lock()
		defer a.holds.mu.Unlock()
		if delete(held.ends, &end); len(held.ends) == 0 {
			a.holds.drop(keyID, held)
		}
	}
}

// drop forgets a key that nobody holds; it is called with the lock held.
func (h *holds) drop(keyID string, held *heldKey) {
	held.stop()
	if h.byKey[keyID] == held {
		delete(h.byKey, keyID)
	}
}

func (k *heldKey) look() {
	select {
	case k.again <- struct{}{}:
	default: // it is about to
	}
}

// look has one key looked at, or all of them.
func (h *holds) look(keyIDs ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range keyIDs {
		if held := h.byKey[id]; held != nil {
			held.look()
		}
	}
	if len(keyIDs) == 0 {
		for _, held := range h.byKey {
			held.look()
		}
	}
}

// watch looks at a held key until nobody holds it, or it is no longer good.
func (a *Authenticator) watch(ctx context.Context, id string, held *heldKey) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-held.again:
		case <-timer.C:
		}
		key, err := a.key(ctx, id)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			timer.Reset(askAgain)
		case key == nil:
			a.holds.end(id, held)
			return
		default:
			timer.Reset(max(a.found.left(id, a.now()), minHold))
		}
	}
}

// end ends what the key has let in.
func (h *holds) end(id string, held *heldKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(id, held)
	for end := range held.ends {
		(*end)()
	}
}
