package session

import (
	"crypto/rand"
	"time"
)

// LinkLife is how long a link may be opened.
const LinkLife = 30 * time.Minute

// linked binds a link's token to its use: it is not a session.
var linked = []byte("forgequeue console link 1")

// Link signs a browser in. Its token is sealed, so every gateway reads it, and none stores it. Whoever takes it must
// record its ID: it signs in once.
type Link struct {
	ID  string `json:"id"`
	Key string `json:"key"`
	// Before is how often all sessions of the key had been ended when the link was made.
	Before  int64     `json:"before,omitzero"`
	Expires time.Time `json:"expires"`
}

// NewLink makes a link for a key.
func NewLink(key string, before int64, now time.Time) Link {
	return Link{ID: rand.Text(), Key: key, Before: before, Expires: now.Add(LinkLife)}
}

// SealLink gives the token of a link.
func (s *Sealer) SealLink(of Link) (token string, err error) { return s.seal(of, linked) }

// OpenLink reads a token; ErrInvalid for one that was not sealed here, or has expired.
func (s *Sealer) OpenLink(token string, now time.Time) (Link, error) {
	var of Link
	if err := s.open(token, linked, &of); err != nil {
		return Link{}, err
	}
	if of.ID == "" || of.Key == "" || !now.Before(of.Expires) {
		return Link{}, ErrInvalid
	}
	return of, nil
}
