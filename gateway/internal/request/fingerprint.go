package request

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Fingerprint is the SHA-256, in hex, of the body's canonical JSON: equivalent
// bodies have the same one. It decides whether a repeat with the same
// Idempotency-Key is the same request.
//
// Canonical means: no white space, members sorted by name, strings with the
// fewest escapes, and numbers as exact decimals (see decimal.go). RFC 8785 is
// not used, because it reads numbers as doubles: 2^53 and 2^53+1 would be equal.
func Fingerprint(body []byte) (string, error) {
	from := jsontext.NewDecoder(bytes.NewReader(body))
	text, err := canonical(make([]byte, 0, len(body)), from)
	if err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	if _, err := from.ReadToken(); !errors.Is(err, io.EOF) {
		return "", errors.New("fingerprint: there is more than one value")
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// canonical appends the decoder's next value.
func canonical(dst []byte, from *jsontext.Decoder) ([]byte, error) {
	if kind := from.PeekKind(); kind == jsontext.KindBeginObject {
		return canonicalObject(dst, from)
	} else if kind == jsontext.KindBeginArray {
		return canonicalArray(dst, from)
	}
	token, err := from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '"':
		return jsontext.AppendQuote(dst, token.String())
	case '0':
		return appendDecimal(dst, token.String()), nil
	default:
		return append(dst, token.String()...), nil
	}
}

func canonicalArray(dst []byte, from *jsontext.Decoder) ([]byte, error) {
	if _, err := from.ReadToken(); err != nil {
		return nil, err
	}
	dst = append(dst, '[')
	for first := true; from.PeekKind() != ']'; first = false {
		if !first {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = canonical(dst, from); err != nil {
			return nil, err
		}
	}
	_, err := from.ReadToken()
	return append(dst, ']'), err
}

// member is where a written member lies in the output.
type member struct {
	name       string
	start, end int
}

// canonicalObject writes the members as they come and then puts them in order:
// one copy a level, and a body has 32 levels at most.
func canonicalObject(dst []byte, from *jsontext.Decoder) ([]byte, error) {
	if _, err := from.ReadToken(); err != nil {
		return nil, err
	}
	var members []member
	start := len(dst)
	for from.PeekKind() != '}' {
		name, err := from.ReadToken()
		if err != nil {
			return nil, err
		}
		written := member{name: name.String(), start: len(dst)}
		if dst, err = jsontext.AppendQuote(dst, written.name); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = canonical(dst, from); err != nil {
			return nil, err
		}
		written.end = len(dst)
		members = append(members, written)
	}
	if _, err := from.ReadToken(); err != nil {
		return nil, err
	}
	return sortMembers(dst, start, members), nil
}

func sortMembers(dst []byte, start int, members []member) []byte {
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	written := bytes.Clone(dst[start:])
	dst = append(dst[:start], '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, written[m.start-start:m.end-start]...)
	}
	return append(dst, '}')
}
