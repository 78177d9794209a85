package api

// TooDeep says whether JSON is nested more than MaxDepth levels deep. It counts brackets
// outside strings, and is for use before a parser, which would go further down; text
// that is no JSON may be judged wrongly here, and is refused there anyway.
func TooDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			depth++
			if depth > MaxDepth {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}
