package auth

import (
	"context"
	"sync"
	"time"
)

const (
	// askAgain is the wait after a look-up that core did not answer.
	askAgain = time.Second
	// minHold keeps a key that is about to expire from being looked up in a busy loop.
	minHold = 10 * time.Millisecond
)

// holds are the requests that wait while their key may be revoked. The key is checked
// again whenever its cache entry is no longer valid: after a hint, when the key
// expires, and at the latest foundLife after its last look-up.
type holds struct {
	mu    sync.Mutex
	byKey map[string]*heldKey
}

type heldKey struct {
	// ends are called when the key is no longer valid; each request has its own.
	ends map[*func()]struct{}
	// again, with a buffer of one, has the key checked now.
	again chan struct{}
	stop  context.CancelFunc
}

// Hold calls end once if the key is revoked, or expires, before release. It is for
// authenticated requests that wait.
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

// drop removes a key without requests; it is called with the lock held.
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

// look has one key checked, or all of them.
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

// watch checks a held key until no request holds it, or it is no longer valid.
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

// end ends the requests of the key.
func (h *holds) end(id string, held *heldKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(id, held)
	for end := range held.ends {
		(*end)()
	}
}
