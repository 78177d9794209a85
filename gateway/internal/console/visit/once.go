package visit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	// onceKept is for how long the answer to a form is kept for its repeat.
	onceKept = time.Minute
	// mostOnce bounds the kept answers; above it a repeat is done again.
	mostOnce = 1000
)

// Forms is what all gateways know of forms that make something.
type Forms struct {
	// First reports whether a form is sent for the first time, to whichever gateway.
	First func(ctx context.Context, id string) bool
	// Forget is called for a form that has failed: it may be sent again.
	Forget func(ctx context.Context, id string)
}

// repeats answers a form that is sent twice, as by a double click, with the answer to the first: the browser shows the
// second one alone, and a new key is shown in no other. What another gateway has got it refuses.
type repeats struct {
	everywhere Forms

	mu   sync.Mutex
	kept map[string]*repeated
}

type repeated struct {
	done  chan struct{}
	until time.Time
	page  Page
	err   error
}

// run does what a form asks for, unless the same form with the same values was sent already. A failure is not kept.
func (r *repeats) run(v *Visit, do PageFunc) (Page, error) {
	once := v.Form.Get("once")
	if once == "" {
		return do(v)
	}
	sum, now := sha256.Sum256([]byte(session.FormToken(v.Session)+"\x00"+v.Request.URL.Path+"\x00"+v.Form.Encode())), v.Site.Now()
	name := hex.EncodeToString(sum[:])
	r.mu.Lock()
	for old, one := range r.kept {
		if now.After(one.until) {
			delete(r.kept, old)
		}
	}
	first, known := r.kept[name]
	if !known && len(r.kept) < mostOnce {
		first = &repeated{done: make(chan struct{}), until: now.Add(onceKept)}
		r.kept[name] = first
	}
	r.mu.Unlock()
	switch {
	case first == nil:
		return do(v)
	case known:
		select {
		case <-first.done:
			return first.page, first.err
		case <-v.Request.Context().Done():
			return Page{}, errLeft()
		}
	}
	// The one who sent it first may have left, as a browser does at the second click.
	r.first(v.detached(), name, first, do)
	return first.page, first.err
}

// first does what a form asks for, unless another gateway has done so.
func (r *repeats) first(v *Visit, name string, one *repeated, do PageFunc) {
	ctx := v.Request.Context()
	one.err = problem.New(problem.Internal, "") // after a panic
	sent := r.everywhere.First != nil && !r.everywhere.First(ctx, name)
	defer func() { // also after a panic: nobody waits for ever
		if _, moved := errors.AsType[RedirectError](one.err); one.err != nil && !moved {
			r.mu.Lock()
			delete(r.kept, name)
			r.mu.Unlock()
			if !sent && r.everywhere.Forget != nil {
				r.everywhere.Forget(ctx, name)
			}
		}
		close(one.done)
	}()
	if sent {
		one.err = sentBefore()
		return
	}
	one.page, one.err = do(v)
}

// sentBefore answers a form that another gateway has got: it alone knows the answer.
func sentBefore() error {
	refused := problem.New(problem.IdempotencyInFlight, "It works once. Look at the list for what it made, before you send it again. A key that was made is shown in the first answer only: if you have not seen it, revoke it, and make another.")
	refused.Title = "This form was already sent"
	return refused
}

// detached is the visit for work that continues if the browser leaves.
func (v *Visit) detached() *Visit {
	own := *v
	own.Request = v.Request.WithContext(context.WithoutCancel(v.Request.Context()))
	return &own
}
