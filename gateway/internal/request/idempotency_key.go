package request

import (
	"errors"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
)

// ErrIdempotencyKey means that an Idempotency-Key header is malformed.
var ErrIdempotencyKey = errors.New("request: malformed Idempotency-Key")

// IdempotencyKey reads the values of a request's Idempotency-Key header
// (draft-ietf-httpapi-idempotency-key-header-07): a quoted string of structured
// fields (RFC 9651, section 3.3.3) or, since most clients send it so, the bare
// characters. Both spellings of a key are the same key: 1 to 255 visible ASCII
// characters. It gives "" where there is no header.
func IdempotencyKey(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", ErrIdempotencyKey // more than one is ambiguous
	}
	key := trimSpace(values[0])
	if strings.HasPrefix(key, `"`) {
		unquoted, ok := unquote(key)
		if !ok {
			return "", ErrIdempotencyKey
		}
		key = unquoted
	} else if strings.Contains(key, `"`) {
		return "", ErrIdempotencyKey // half a quoted string is a mistake, not a key
	}
	if key == "" || len(key) > api.MaxIdempotencyKey {
		return "", ErrIdempotencyKey
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return "", ErrIdempotencyKey
		}
	}
	return key, nil
}
