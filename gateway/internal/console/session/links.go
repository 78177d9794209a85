package session

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// LinkLife is how long a link may be opened.
	LinkLife = 30 * time.Minute
	// mostLinks bounds the memory of links; the oldest goes first.
	mostLinks = 1000
)

// Links sign in once, without the key in the URL. They are known to the gateway that made them, until it stops.
type Links struct {
	mu    sync.Mutex
	links map[[sha256.Size]byte]link
}

type link struct {
	key     string
	before  int64
	expires time.Time
}

// NewLinks makes Links.
func NewLinks() *Links { return &Links{links: map[[sha256.Size]byte]link{}} }

// Make gives a token that Redeem takes once. before is how often all sessions of the key have been ended.
func (l *Links) Make(key string, before int64, now time.Time) (token string, expires time.Time) {
	token, expires = rand.Text(), now.Add(LinkLife)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune(now)
	l.links[sha256.Sum256([]byte(token))] = link{key, before, expires}
	return token, expires
}

// prune drops what has expired, and the oldest if there are too many.
func (l *Links) prune(now time.Time) {
	var oldest [sha256.Size]byte
	var at time.Time
	for token, one := range l.links {
		if !now.Before(one.expires) {
			delete(l.links, token)
		} else if at.IsZero() || one.expires.Before(at) {
			oldest, at = token, one.expires
		}
	}
	if len(l.links) >= mostLinks {
		delete(l.links, oldest)
	}
}

// Redeem gives the key of a token and what Make was given with it, the first time.
func (l *Links) Redeem(token string, now time.Time) (key string, before int64, ok bool) {
	hash := sha256.Sum256([]byte(token)) // so that the time of the look-up tells nothing of the token
	l.mu.Lock()
	defer l.mu.Unlock()
	one, ok := l.links[hash]
	delete(l.links, hash)
	return one.key, one.before, ok && now.Before(one.expires)
}
