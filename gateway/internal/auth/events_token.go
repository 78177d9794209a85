package auth

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"
)

// eventsTokenLife is how long an events token opens a stream.
const eventsTokenLife = 60 * time.Second

// EventsToken makes a token by which a browser's EventSource, which sends no headers, opens the event stream of one job
// as the holder of a key. It is keyID.milliseconds.signature; nothing of it is stored.
func (a *Authenticator) EventsToken(keyID, job string) (token string, expires time.Time) {
	expires = a.now().Add(eventsTokenLife).Truncate(time.Millisecond)
	until := strconv.FormatInt(expires.UnixMilli(), 10)
	return strings.Join([]string{keyID, until, a.eventsSignature(keyID, job, until)}, "."), expires
}

// AuthenticateEvents verifies an events token for a job. It returns ErrUnauthenticated for one that is not valid: of
// another job, expired, forged, or of a key that is no longer valid.
func (a *Authenticator) AuthenticateEvents(ctx context.Context, token, job string) (Caller, error) {
	keyID, rest, _ := strings.Cut(token, ".")
	until, signature, _ := strings.Cut(rest, ".")
	expires, err := strconv.ParseInt(until, 10, 64)
	if err != nil || !ValidKeyID(keyID) || !hmac.Equal([]byte(signature), []byte(a.eventsSignature(keyID, job, until))) ||
		!a.now().Before(time.UnixMilli(expires)) {
		return Caller{}, ErrUnauthenticated
	}
	return a.holder(ctx, keyID)
}

// holder is the holder of a key that has made a token.
func (a *Authenticator) holder(ctx context.Context, keyID string) (Caller, error) {
	known, err := a.key(ctx, keyID)
	if err != nil {
		return Caller{}, fmt.Errorf("look up key %s: %w", keyID, err)
	}
	if known == nil || !isOfAPIKey(known) {
		return Caller{}, ErrUnauthenticated
	}
	return callerOf(known), nil
}

func (a *Authenticator) eventsSignature(keyID, job, until string) string {
	return a.sign("events of " + job + " for " + keyID + " until " + until)
}

// sign signs a text with the secret of keys. Its text has a space, which keeps it apart from what else is signed: no secret holds one.
func (a *Authenticator) sign(text string) string {
	mac := a.macs.Get().(hash.Hash) //nolint:forcetypeassert // the pool holds nothing else
	defer a.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write([]byte(text)) // a hash never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
