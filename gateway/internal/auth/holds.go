package auth

import (
	"context"
	"math"
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
	requests map[*heldRequest]struct{}
	// again, with a buffer of one, has the key checked now.
	again chan struct{}
	stop  context.CancelFunc
}

// heldRequest is a request that waits. It ends when the key is no longer valid, or has ended its sessions more often
// than before.
type heldRequest struct {
	end    func()
	before int64
}

// WhileGood gives a context that ends, with ErrUnauthenticated for its cause, if the caller's key is revoked, or expires,
// before release; for a person, if the tenant is deleted. It is for authenticated requests that wait.
func (a *Authenticator) WhileGood(ctx context.Context, of Caller) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhold := a.hold(ctx, of.held(), &heldRequest{func() { cancel(ErrUnauthenticated) }, math.MaxInt64})
	return ctx, func() {
		unhold()
		cancel(nil)
	}
}

// HoldSession calls end once if the key of a console session is revoked, or expires, before release, or ends its sessions
// once more than before, which is how often it had when the session began.
func (a *Authenticator) HoldSession(ctx context.Context, keyID string, before int64, end func()) (release func()) {
	return a.hold(ctx, keyID, &heldRequest{end, before})
}

func (a *Authenticator) hold(ctx context.Context, keyID string, one *heldRequest) (release func()) {
	a.holds.mu.Lock()
	defer a.holds.mu.Unlock()
	key := a.holds.byKey[keyID]
	if key == nil {
		watching, stop := context.WithCancel(context.WithoutCancel(ctx))
		key = &heldKey{requests: map[*heldRequest]struct{}{}, again: make(chan struct{}, 1), stop: stop}
		if a.holds.byKey == nil {
			a.holds.byKey = map[string]*heldKey{}
		}
		a.holds.byKey[keyID] = key
		go a.watch(watching, keyID, key)
	} else {
		key.look() // it may have been revoked since it let this request in
	}
	key.requests[one] = struct{}{}
	return func() {
		a.holds.mu.Lock()
		defer a.holds.mu.Unlock()
		if delete(key.requests, one); len(key.requests) == 0 {
			a.holds.drop(keyID, key)
		}
	}
}

// drop removes a key without requests; it is called with the lock held.
func (h *holds) drop(keyID string, key *heldKey) {
	key.stop()
	if h.byKey[keyID] == key {
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
			a.holds.endSessions(held, key.SessionsEnded)
			timer.Reset(max(a.found.left(id, a.now()), minHold))
		}
	}
}

// end ends the requests of the key.
func (h *holds) end(id string, key *heldKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(id, key)
	for one := range key.requests {
		one.end()
	}
}

// endSessions ends the requests of sessions from before the key has ended its sessions so often.
func (h *holds) endSessions(key *heldKey, ended int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for one := range key.requests {
		if one.before < ended {
			delete(key.requests, one)
			one.end()
		}
	}
}
