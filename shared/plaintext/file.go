// Package plaintext reads text that other programs have stored: Windows' editors and PowerShell put a byte-order mark before
// it, or write UTF-16.
package plaintext

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrNotUTF8 is for text in UTF-16 or UTF-32, with a byte-order mark or without.
var ErrNotUTF8 = errors.New("is UTF-16 or UTF-32: save it as UTF-8")

// mark is the byte-order mark of UTF-8.
const mark = "\ufeff"

// Decode gives text without its byte-order mark. The text must begin with an ASCII character, as JSON and keys do.
func Decode(content []byte) ([]byte, error) {
	if wide(content) {
		return nil, ErrNotUTF8
	}
	return bytes.TrimPrefix(content, []byte(mark)), nil
}

// Reader is Decode for a text that is read in parts.
func Reader(from io.Reader) (io.Reader, error) {
	in := bufio.NewReader(from)
	begin, err := in.Peek(len(mark))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if wide(begin) {
		return nil, ErrNotUTF8
	}
	if bytes.HasPrefix(begin, []byte(mark)) {
		_, _ = in.Discard(len(mark)) // it was read
	}
	return in, nil
}

// wide says whether a text begins with the mark of UTF-16 or UTF-32, or with an ASCII character of these.
func wide(begin []byte) bool {
	if len(begin) < 2 {
		return false
	}
	a, b := begin[0], begin[1]
	return a == 0xff && b == 0xfe || a == 0xfe && b == 0xff || (a == 0) != (b == 0) || a == 0 && len(begin) > 2 && begin[2] == 0xfe
}
