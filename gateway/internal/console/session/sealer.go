package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
)

// MinSecretBytes is the least length of a secret.
const MinSecretBytes = 32

// ErrInvalid means that a cookie was not sealed here, or by a secret that is no longer used.
var ErrInvalid = errors.New("the session is not valid")

// sealed binds what is sealed to its use: no other use of the secret makes a session.
var sealed = []byte("forgequeue console session 1")

// Sealer seals sessions and links with one secret, and opens those of the previous one too. It is safe for concurrent use.
type Sealer struct {
	seals []cipher.AEAD // the first one seals
}

// NewSealer makes a Sealer; previous may be empty.
func NewSealer(secret, previous []byte) (*Sealer, error) {
	s := &Sealer{}
	for _, one := range [][]byte{secret, previous} {
		if len(one) == 0 {
			continue
		}
		key, err := hkdf.Key(sha256.New, one, nil, "forgequeue console seal", 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		seal, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		s.seals = append(s.seals, seal)
	}
	if len(s.seals) == 0 {
		return nil, errors.New("the console has no secret")
	}
	return s, nil
}

// Seal gives the text of a cookie.
func (s *Sealer) Seal(of Session) (string, error) { return s.seal(of, sealed) }

// Open reads a cookie; ErrInvalid for one that was not sealed here.
func (s *Sealer) Open(text string) (Session, error) {
	var of Session
	if err := s.open(text, sealed, &of); err != nil {
		return Session{}, err
	}
	if (of.Key == "") == (of.Person == nil) || of.ID == "" {
		return Session{}, ErrInvalid
	}
	return of, nil
}

func (s *Sealer) seal(of any, use []byte) (string, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.seals[0].Seal(nil, nil, text, use)), nil //nolint:gosec // this AEAD draws its nonce itself
}

func (s *Sealer) open(text string, use []byte, into any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return ErrInvalid
	}
	for _, seal := range s.seals {
		plain, err := seal.Open(nil, nil, raw, use)
		if err != nil {
			continue
		}
		if json.Unmarshal(plain, into) != nil {
			return ErrInvalid
		}
		return nil
	}
	return ErrInvalid
}

// FormToken is what every form of a session carries: another session's is refused, and that of another tenant of the same
// person. It is made of what only the sealed cookie holds, so that no other site knows it.
func FormToken(of Session) string {
	mac := hmac.New(sha256.New, []byte(of.ID))
	use := "forgequeue console form"
	if of.Person != nil {
		use += " of " + of.Person.Tenant
	}
	_, _ = mac.Write([]byte(use)) // a hash never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ValidFormToken compares in constant time.
func ValidFormToken(of Session, token string) bool {
	return hmac.Equal([]byte(token), []byte(FormToken(of)))
}
