package request

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// ETag is a strong validator (RFC 9110, section 8.8.3): the same for the same
// bytes, whichever gateway writes them.
func ETag(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// NoneMatch says whether If-None-Match names the tag, by weak comparison (RFC 9110,
// section 13.1.2). A value that is no list of tags names none: the caller then gets
// the whole answer.
func NoneMatch(headers []string, etag string) bool {
	list, etag := strings.Join(headers, ","), strings.TrimPrefix(etag, "W/")
	if trimSpace(list) == "*" {
		return true
	}
	for given := range splitList(list, ',') {
		if strings.TrimPrefix(trimSpace(given), "W/") == etag {
			return true
		}
	}
	return false
}
