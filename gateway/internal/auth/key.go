package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"strings"
)

const (
	keyPrefix = "fq"
	base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	lowerAndDigits = "0123456789abcdefghijklmnopqrstuvwxyz"

	keyIDLength = 16
	// 27 characters of base62 hold 160.7 bits.
	secretLength = 27
	// A signature of 11 characters of base62 holds 64 bits.
	signatureLength = 11
	checksumLength  = 6
	maxEnvLength    = 16
)

// errMalformed is for every way in which a text is not a key.
var errMalformed = errors.New("auth: not an API key")

// Key is an API key taken apart. It holds a secret: never log it.
type Key struct {
	Env string
	ID  string
	// Secret is what proves the holder, with its signature, without its checksum.
	Secret string
}

// ValidEnv says whether env can be the label of a key: 1 to 16 of a-z and 0-9.
func ValidEnv(env string) bool { return made(env, 1, maxEnvLength, lowerAndDigits) }

// ValidKeyID says whether id can be a key's id.
func ValidKeyID(id string) bool { return made(id, keyIDLength, keyIDLength, base62) }

// made says whether a text of a length between these is made of an alphabet alone.
func made(text string, least, most int, alphabet string) bool {
	return len(text) >= least && len(text) <= most && strings.Trim(text, alphabet) == ""
}

// Mint draws a key. Its secret ends in a signature of all before it, by which a gateway distinguishes keys that gateways
// made from invented ones before it asks core. It proves no more than that: the key may be revoked.
func Mint(env string, keySecret []byte) Key {
	k := Key{Env: env, ID: draw(keyIDLength), Secret: draw(secretLength)}
	k.Secret += k.signature(hmac.New(sha256.New, keySecret))
	return k
}

// Text is the key as its holder sends it.
func (k Key) Text() string {
	text := strings.Join([]string{keyPrefix, k.Env, k.ID, k.Secret}, "_")
	return text + checksum(text)
}

// signedBy says whether the secret ends in its signature.
func (k Key) signedBy(mac hash.Hash) bool {
	return hmac.Equal([]byte(k.signature(mac)), []byte(k.Secret[secretLength:]))
}

// signature is of the id and the first characters of the secret. The spaces keep it
// apart from what HMAC sums up: no secret holds one.
func (k Key) signature(mac hash.Hash) string {
	mac.Reset()
	_, _ = mac.Write([]byte("signature of " + k.ID + " " + k.Secret[:secretLength])) // a hash never fails
	return digits(binary.BigEndian.Uint64(mac.Sum(nil)), signatureLength)
}

// HMAC is what may be stored of the key: HMAC-SHA-256 of its secret.
func (k Key) HMAC(keySecret []byte) []byte { return k.sumBy(hmac.New(sha256.New, keySecret)) }

func (k Key) sumBy(mac hash.Hash) []byte {
	mac.Reset()
	_, _ = mac.Write([]byte(k.Secret)) // a hash never fails
	return mac.Sum(nil)
}

// Parse parses a key. The checksum comes first, so that a key with a typing error
// costs no look-up.
func Parse(text string) (Key, error) {
	const longest = len(keyPrefix) + 1 + maxEnvLength + 1 + keyIDLength + 1 + secretLength + signatureLength + checksumLength
	if len(text) > longest || len(text) < checksumLength {
		return Key{}, errMalformed
	}
	body, sum := text[:len(text)-checksumLength], text[len(text)-checksumLength:]
	if checksum(body) != sum {
		return Key{}, errMalformed
	}
	parts := strings.Split(body, "_")
	if len(parts) != 4 || parts[0] != keyPrefix {
		return Key{}, errMalformed
	}
	key := Key{Env: parts[1], ID: parts[2], Secret: parts[3]}
	if !ValidEnv(key.Env) || !ValidKeyID(key.ID) || !validSecret(key.Secret) {
		return Key{}, errMalformed
	}
	return key, nil
}

func validSecret(secret string) bool {
	return made(secret, secretLength+signatureLength, secretLength+signatureLength, base62)
}

// checksum is CRC-32 (IEEE) in base62, most significant character first; 6
// characters hold any 32 bits.
func checksum(text string) string {
	return digits(uint64(crc32.ChecksumIEEE([]byte(text))), checksumLength)
}

// digits writes a number in base62, most significant character first.
func digits(number uint64, length int) string {
	text := make([]byte, length)
	for i := range text {
		text[length-1-i] = base62[number%62]
		number /= 62
	}
	return string(text)
}

// draw gives n characters, each equally likely: bytes from 248 (4·62) on are
// drawn again, since a plain remainder would favour the first characters.
func draw(n int) string {
	text := make([]byte, 0, n)
	buffer := make([]byte, 2*n)
	for len(text) < n {
		_, _ = rand.Read(buffer) // crypto/rand never fails: it ends the program instead
		for _, b := range buffer {
			if b < 248 && len(text) < n {
				text = append(text, base62[b%62])
			}
		}
	}
	return string(text)
}
