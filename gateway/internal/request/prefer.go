package request

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// PreferredWait reads Prefer: wait=n (RFC 7240, section 4.3), in seconds. It takes the
// first wait among the preferences, which may be in several headers; later ones are
// ignored (RFC 7240, section 2). More than api.MaxWait counts as api.MaxWait. ok is false
// if there is no wait that can be honoured: by the RFC such a preference is ignored.
func PreferredWait(headers []string) (seconds int, ok bool) {
	for preference := range splitList(strings.Join(headers, ","), ',') {
		preference, _, _ = strings.Cut(preference, ";") // its parameters: wait has none
		name, value, _ := strings.Cut(preference, "=")
		if strings.EqualFold(trimSpace(name), "wait") {
			return deltaSeconds(trimSpace(value))
		}
	}
	return 0, false
}

// deltaSeconds reads digits and nothing else (RFC 9111, section 1.2.2).
func deltaSeconds(text string) (seconds int, ok bool) {
	const most = int(api.MaxWait / time.Second)
	n, err := strconv.ParseUint(text, 10, 32)
	if errors.Is(err, strconv.ErrRange) {
		return most, true
	}
	return int(min(n, uint64(most))), err == nil
}
