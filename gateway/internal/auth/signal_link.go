package auth

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// SignalLink is one signal of one job that the holder of the link's token may send.
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
	caller, err := a.holder(ctx, of.KeyID)
	return caller, of, err
}

func (a *Authenticator) signalSignature(said string) string { return a.sign("signal link " + said) }
