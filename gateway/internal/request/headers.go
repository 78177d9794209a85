package request

import (
	"iter"
	"strings"
)

// Bearer reads the credential of an Authorization header (RFC 6750, section 2.1); ""
// where there is none, or more than one.
func Bearer(values []string) string {
	if len(values) != 1 {
		return ""
	}
	scheme, credential, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(credential, " ")
}

// splitList cuts a header's list at each separator that is not inside a quoted string.
func splitList(text string, separator byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, quoted := 0, false
		for i := 0; i < len(text); i++ {
			switch b := text[i]; {
			case quoted && b == '\\':
				i++
			case b == '"':
				quoted = !quoted
			case b == separator && !quoted:
				if !yield(text[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(text[start:])
	}
}

// trimSpace cuts HTTP's white space (RFC 9110, section 5.6.3), which is less than
// Unicode's.
func trimSpace(text string) string { return strings.Trim(text, " \t") }

// unquote reads an sf-string, in which only the quote and the backslash may be
// escaped. Parameters after it are no part of this header.
func unquote(quoted string) (string, bool) {
	if len(quoted) < 2 || !strings.HasSuffix(quoted, `"`) {
		return "", false
	}
	inner := quoted[1 : len(quoted)-1]
	var text strings.Builder
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '"':
			return "", false
		case '\\':
			i++
			if i == len(inner) || (inner[i] != '"' && inner[i] != '\\') {
				return "", false
			}
		}
		text.WriteByte(inner[i])
	}
	return text.String(), true
}
