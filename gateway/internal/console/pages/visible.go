package pages

import (
	"bytes"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/plaintext"
)

// visible escapes the hidden characters in the text of a page: a name must not turn the words beside it round. Those in
// tags stay: a form sends the value that it shows, and a link leads where it did. Between tags stands JSON for scripts too,
// which reads the escapes. html/template leaves no < and > in an attribute.
func visible(page []byte) []byte {
	var made bytes.Buffer
	tag, done := false, 0
	for at := 0; at < len(page); {
		c, size := utf8.DecodeRune(page[at:])
		switch {
		case c == '<':
			tag = true
		case c == '>':
			tag = false
		case c > utf8.RuneSelf && !tag && plaintext.Hidden(c):
			made.Write(page[done:at])
			made.WriteString(plaintext.Escape(c))
			done = at + size
		}
		at += size
	}
	if done == 0 {
		return page
	}
	made.Write(page[done:])
	return made.Bytes()
}
