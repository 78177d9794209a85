// Package seal encrypts secrets at rest that must be used again, such as those that sign calls:
// AES-256-GCM under a key that is in the environment of the cores and not in the database.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// MinKeyBytes is the least length of a key's text.
const MinKeyBytes = 32

// form is the first byte of a sealed secret, for other forms in the future.
//
//	form (1) · which key (4) · nonce (12) · ciphertext and tag
const (
	form    = 1
	keyMark = 4
)

// ErrOpen says that a secret cannot be opened: with none of the keys, or not for this place.
var ErrOpen = errors.New("seal: the secret was sealed with another key, for another place, or is damaged")

// Keys seal with the first and open with any.
type Keys struct{ keys []sealer }

type sealer struct {
	mark []byte
	aead cipher.AEAD
	// derive is the key of Derive.
	derive []byte
}

// New makes keys of texts of at least MinKeyBytes each, the active one first.
func New(texts ...string) (*Keys, error) {
	k := &Keys{}
	for _, text := range texts {
		if len(text) < MinKeyBytes {
			return nil, fmt.Errorf("seal: a key must have at least %d bytes", MinKeyBytes)
		}
		// The text is random, in any alphabet: HKDF (RFC 5869) makes a key of it.
		derived, err := hkdf.Key(sha256.New, []byte(text), nil, "forgequeue seal", 32+keyMark)
		if err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
		block, err := aes.NewCipher(derived[:32])
		if err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
		derive, err := hkdf.Key(sha256.New, []byte(text), nil, "forgequeue derive", 32)
		if err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
		k.keys = append(k.keys, sealer{mark: derived[32:], aead: aead, derive: derive})
	}
	if len(k.keys) == 0 {
		return nil, errors.New("seal: there is no key")
	}
	return k, nil
}

// Seal encrypts a secret for one place: it opens for no other, so that it cannot be copied to
// another row.
func (k *Keys) Seal(secret []byte, place string) []byte {
	key := k.keys[0]
	nonce := make([]byte, key.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails, as documented
	sealed := append(append([]byte{form}, key.mark...), nonce...)
	return key.aead.Seal(sealed, nonce, secret, []byte(place))
}

// Derive makes 32 bytes of parts that are the same for the same parts, and random to who has no key.
func (k *Keys) Derive(parts ...string) []byte {
	mac := hmac.New(sha256.New, k.keys[0].derive)
	for _, part := range parts {
		_, _ = fmt.Fprintf(mac, "%d %s", len(part), part) // a hash never fails
	}
	return mac.Sum(nil)
}

// Open decrypts a secret. stale says that it was sealed with a key that is no longer active, and
// should be sealed again.
func (k *Keys) Open(sealed []byte, place string) (secret []byte, stale bool, err error) {
	for i, key := range k.keys {
		head := 1 + keyMark + key.aead.NonceSize()
		if len(sealed) < head || sealed[0] != form || !bytes.Equal(sealed[1:1+keyMark], key.mark) {
			continue
		}
		if secret, err = key.aead.Open(nil, sealed[1+keyMark:head], sealed[head:], []byte(place)); err == nil {
			return secret, i > 0, nil
		}
	}
	return nil, false, ErrOpen
}
