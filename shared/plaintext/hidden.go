package plaintext

import (
	"fmt"
	"strings"
	"unicode"
)

// Hidden says whether a character is not seen and changes how other text looks: it turns the direction of writing (Unicode's
// Bidi_Control), breaks the line, or takes no room. Those that languages need within words, U+200C and U+200D, are none.
func Hidden(c rune) bool {
	return unicode.Is(unicode.Bidi_Control, c) || c == '\u200b' || c == '\u2028' || c == '\u2029' || c == '\ufeff'
}

// Escape writes a character that is [Hidden] as JSON can: \u202e.
func Escape(c rune) string { return fmt.Sprintf(`\u%04x`, c) }

// Visible escapes what is [Hidden] in a text.
func Visible(text string) string {
	if !strings.ContainsFunc(text, Hidden) {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if Hidden(c) {
			b.WriteString(Escape(c))
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}
