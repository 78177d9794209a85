package hop

import (
	"crypto/sha256"
	"encoding/base64"
)

// ETag is a strong validator (RFC 9110, section 8.8.3): the same for the same bytes, whichever process writes them.
func ETag(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}
