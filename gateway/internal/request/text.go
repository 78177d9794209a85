package request

import (
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// clipped is how much of a caller's own text a problem repeats, in bytes.
const clipped = 200

// Clip shortens a caller's text for a problem.
func Clip(text string) string {
	if len(text) <= clipped {
		return text
	}
	end := clipped
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Storable says whether PostgreSQL can hold a text.
func Storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// UUID accepts the canonical form only, 36 characters in either case, and gives it in
// lower case. With the other forms of uuid.Parse one id would have several texts.
func UUID(text string) (string, bool) {
	if len(text) != 36 {
		return "", false
	}
	id, err := uuid.Parse(text)
	return id.String(), err == nil
}
