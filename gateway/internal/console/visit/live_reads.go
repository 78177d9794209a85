package visit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/forgequeue/forgequeue/gateway/internal/inner"
)

const (
	// SharedFor is how old an answer may be that open pages share.
	SharedFor = 2 * time.Second
	// liveTimeout ends a shared read: the browser that began it may have left.
	liveTimeout = 15 * time.Second
	// maxLiveBytes bounds the answers that are kept; further ones are not shared.
	maxLiveBytes = 32 << 20
)

// liveReads are what open pages have read lately, so that a hundred pages of one key cost about as much as one. An
// answer is shared only with the key that it was given to, and none is older than that key's last form in this gateway.
type liveReads struct {
	now func() time.Time
	// forms counts forms by the first byte of their key's hash: a form of another key with that byte costs a read.
	forms [256]atomic.Uint64
	under singleflight.Group

	mu      sync.Mutex
	answers map[liveRead]liveAnswer
	size    int // of the bodies of answers, in bytes
}

// liveRead is a GET: whose, of what, after how many forms.
type liveRead struct {
	key    [sha256.Size]byte
	target string
	forms  uint64
}

type liveAnswer struct {
	*inner.Answer

	until time.Time
}

func newLiveReads(now func() time.Time) *liveReads {
	return &liveReads{now: now, answers: map[liveRead]liveAnswer{}}
}

// changed is called before and after each form of a key: what is read meanwhile is not shared afterwards.
func (l *liveReads) changed(key string) { l.forms[sha256.Sum256([]byte(key))[0]].Add(1) }

// read gives a shared answer to a GET of a key, or asks for one. The answer is not to be changed.
func (l *liveReads) read(ctx context.Context, key, target string, ask func(context.Context) *inner.Answer) (*inner.Answer, error) {
	read := liveRead{key: sha256.Sum256([]byte(key)), target: target}
	read.forms = l.forms[read.key[0]].Load()
	if known := l.known(read); known != nil {
		return known, nil
	}
	name := string(read.key[:]) + strconv.FormatUint(read.forms, 10) + " " + target
	got := l.under.DoChan(name, func() (_ any, err error) {
		defer func() { // a panic would end the process here: there is no request around it
			if failure := recover(); failure != nil {
				err = fmt.Errorf("%s: panic: %v", target, failure)
			}
		}()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), liveTimeout)
		defer stop()
		begun := l.now()
		fresh := ask(ctx)
		if fresh.Status < http.StatusBadRequest {
			l.keep(read, liveAnswer{fresh, begun.Add(SharedFor)})
		}
		return fresh, nil
	})
	select {
	case <-ctx.Done():
		return nil, errLeft()
	case done := <-got:
		if done.Err != nil {
			return nil, done.Err
		}
		return done.Val.(*inner.Answer), nil //nolint:forcetypeassert // it is what the function above returns
	}
}

func (l *liveReads) known(read liveRead) *inner.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found, ok := l.answers[read]; ok && l.now().Before(found.until) {
		return found.Answer
	}
	return nil
}

// keep keeps an answer for others, and drops those that are too old.
func (l *liveReads) keep(read liveRead, fresh liveAnswer) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.answers, func(_ liveRead, old liveAnswer) bool {
		ended := !now.Before(old.until)
		if ended {
			l.size -= old.Body.Len()
		}
		return ended
	})
	if old, ok := l.answers[read]; ok {
		l.size -= old.Body.Len()
		delete(l.answers, read)
	}
	if l.size+fresh.Body.Len() <= maxLiveBytes {
		l.answers[read] = fresh
		l.size += fresh.Body.Len()
	}
}
