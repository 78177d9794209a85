// Package identity proves to core that a request comes from a gateway.
//
// The gateway signs method, path, body and time of each request with
// HMAC-SHA-256 under a secret that both know; core verifies before it reads the
// body's meaning. Who the caller is stands inside the signed body, item by
// item, so a principal cannot be changed without breaking the signature. The body
// has a nonce too, so that no two requests have the same signature, and a process
// that remembers signatures takes each request once.
package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Header carries the assertion: "v1 t=<unix microseconds> s=<hex hmac>".
const Header = "Forgequeue-Assertion"

// TakenCode is the code of the problem, 409, that refuses a good assertion which was
// taken before. It is none of the public codes: to a gateway that does not know it, the
// answer is not valid, and so the outcome of its call unknown.
const TakenCode = "assertion_taken"

// TimeHeader carries core's clock (Unix microseconds) in an answer that refuses
// an assertion for its time, so that the gateway can learn the offset.
const TimeHeader = "Forgequeue-Time"

// MinSecretBytes is the shortest secret that either side accepts.
const MinSecretBytes = 32

const version = "v1"

var (
	// ErrUnsigned means the assertion is absent, malformed, or made with
	// another secret or for another request.
	ErrUnsigned = errors.New("identity: no valid assertion")
	// ErrExpired means the assertion is good but its time lies outside the window.
	ErrExpired = errors.New("identity: assertion outside its time window")
	// ErrReplayed means that the assertion is good and was taken before.
	ErrReplayed = errors.New("identity: assertion taken before")
)

// Sign makes the assertion for one request at the given time. path is the
// request's path without query: the internal API has no queries.
func Sign(secret []byte, method, path string, body []byte, at time.Time) string {
	micros := strconv.FormatInt(at.UnixMicro(), 10)
	mac := digest(secret, method, path, body, micros)
	return version + " t=" + micros + " s=" + hex.EncodeToString(mac)
}

// Verifier checks assertions.
type Verifier struct {
	// Secrets are tried in turn: the current one, and while it is rotated the
	// previous one.
	Secrets [][]byte
	// Window is how far the assertion's time may lie from now, either way.
	Window time.Duration
	// Seen, where set, refuses what it has seen, and what is from before its time.
	Seen *Seen
}

// Verify checks one assertion. The signature is checked before the time, so that a
// caller without the secret learns nothing about the clock.
func (v Verifier) Verify(assertion, method, path string, body []byte, now time.Time) error {
	micros, mac, ok := parse(assertion)
	if !ok {
		return ErrUnsigned
	}
	signed := false
	for _, secret := range v.Secrets {
		if hmac.Equal(mac, digest(secret, method, path, body, micros)) {
			signed = true
		}
	}
	if !signed {
		return ErrUnsigned
	}
	at, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		return ErrUnsigned
	}
	made := time.UnixMicro(at)
	switch {
	case now.Sub(made).Abs() > v.Window, v.Seen != nil && made.Before(v.Seen.began(now)):
		return ErrExpired
	case v.Seen != nil && !v.Seen.take(mac, made, now, v.Window):
		return ErrReplayed
	}
	return nil
}

func parse(assertion string) (micros string, mac []byte, ok bool) {
	parts := strings.Split(assertion, " ")
	if len(parts) != 3 || parts[0] != version {
		return "", nil, false
	}
	micros, timed := strings.CutPrefix(parts[1], "t=")
	signature, signed := strings.CutPrefix(parts[2], "s=")
	if !timed || !signed {
		return "", nil, false
	}
	mac, err := hex.DecodeString(signature)
	return micros, mac, err == nil && len(mac) == sha256.Size
}

// digest separates its parts with newlines: none of method, path and time can
// hold one, and the body enters as a hash of fixed length.
func digest(secret []byte, method, path string, body []byte, micros string) []byte {
	sum := sha256.Sum256(body)
	mac := hmac.New(sha256.New, secret)
	for _, part := range []string{"forgequeue-hop", version, method, path, hex.EncodeToString(sum[:]), micros} {
		_, _ = mac.Write([]byte(part)) // a hash never fails
		_, _ = mac.Write([]byte{'\n'})
	}
	return mac.Sum(nil)
}
