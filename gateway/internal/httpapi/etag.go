package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
)

// represent makes the answer that shows a job, with its ETag: 304 where the
// caller has named it in If-None-Match.
func represent(c *call, job *api.Job) (reply[json.RawMessage], error) {
	text, err := encode(job)
	if err != nil {
		return reply[json.RawMessage]{}, fmt.Errorf("encode a job: %w", err)
	}
	answer := reply[json.RawMessage]{status: http.StatusOK, value: text, etag: etagOf(text)}
	if noneMatch(c.ifNoneMatch, answer.etag) {
		answer.status = http.StatusNotModified
	}
	return answer, nil
}

// etagOf is a strong validator (RFC 9110, section 8.8.3): the same for the same
// bytes, whichever gateway writes them.
func etagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// noneMatch says whether If-None-Match names the tag, in the weak comparison that
// RFC 9110 wants there (section 13.1.2). What is no list of tags names none: the
// caller then gets the whole answer.
func noneMatch(headers []string, etag string) bool {
	list := strings.Join(headers, ",")
	if trimSpace(list) == "*" {
		return true
	}
	for given := range elements(list) {
		if strings.TrimPrefix(trimSpace(given), "W/") == etag {
			return true
		}
	}
	return false
}
