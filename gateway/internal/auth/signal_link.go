package auth

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"strings"
	"time"
)

// SignalLink is one signal of one job that whoever has the link's token may send.
type SignalLink struct {
	// KeyID is the key that made the link, as whose holder the signal is sent: a revoked key's links are not valid.
	KeyID string `json:"k"`
	Job   string `json:"j"`
	Name  string `json:"n"`
	Title string `json:"t"`
	// Expires is in milliseconds since 1970.
	Expires int64 `json:"e"`
}

// SignalToken makes the token of a link. Nothing of it is stored: it is what it says, in base64url, and a signature.
func (a *Authenticator) SignalToken(of SignalLink) string {
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // strings and a number
	}
	said := base64.RawURLEncoding.EncodeToString(text)
	return said + "." + a.signalSignature(said)
}

// AuthenticateSignal verifies a token. It returns ErrUnauthenticated for one that is not valid: expired, forged, or of a key that is
// no longer valid.
func (a *Authenticator) AuthenticateSignal(ctx context.Context, token string) (Caller, SignalLink, error) {
	var of SignalLink
	said, signature, _ := strings.Cut(token, ".")
	if !hmac.Equal([]byte(signature), []byte(a.signalSignature(said))) {
		return Caller{}, of, ErrUnauthenticated
	}
	text, err := base64.RawURLEncoding.DecodeString(said)
	if err != nil || json.Unmarshal(text, &of) != nil || !a.now().Before(time.UnixMilli(of.Expires)) {
		return Caller{}, of, ErrUnauthenticated
	}
	known, err := a.key(ctx, of.KeyID)
	if err != nil {
		return Caller{}, of, fmt.Errorf("look up key %s: %w", of.KeyID, err)
	}
	if known == nil || !isOfAPIKey(known) {
		return Caller{}, of, ErrUnauthenticated
	}
	return callerOf(known), of, nil
}

// The spaces keep it apart from what else is signed: no secret holds one.
func (a *Authenticator) signalSignature(said string) string {
	mac := a.macs.Get().(hash.Hash) //nolint:forcetypeassert // the pool holds nothing else
	defer a.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write([]byte("signal link " + said)) // a hash never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
