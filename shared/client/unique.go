package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf16"
)

// UniqueKey is the key of arguments, within the period that contains at; a period of 0
// is all time. JobOptions.Unique and UniquePeriod use it as DedupeKey, for one live job
// at a time. As an Idempotency-Key it makes one job a period of up to 24 hours, ended or
// not: a second submit gets the first one's answer, and keys are remembered that long at
// least.
//
//	key, err := client.UniqueKey(report, 24*time.Hour, time.Now())
//	job, err := client.Submit(ctx, c, report, client.WithIdempotencyKey(key))
//
// It is "unique:" and the SHA-256, in hexadecimal, of three lines: the type, the
// arguments as JSON in canonical form, and the beginning of the period in UTC
// (RFC 3339), empty without one. Periods are counted from Monday, 1 January of the
// year 1: a period of 24 hours begins at midnight UTC, one of 168 hours on Monday.
// Canonical form is that of RFC 8785 (no white space, members sorted by their UTF-16
// code units, no escapes but the necessary ones), except that a number stays as
// encoding/json writes it: integers above 2^53 keep all digits. So the key does not
// depend on the process, the order of fields or the version of Go; a field that is
// added changes it, unless it is empty and has omitempty or omitzero.
func UniqueKey(args JobArgs, period time.Duration, at time.Time) (string, error) {
	payload, err := encode(args)
	if err != nil {
		return "", fmt.Errorf("client: the arguments %T cannot be written as JSON: %w", args, err)
	}
	return uniqueKey(args.JobType(), payload, period, at)
}

func uniqueKey(jobType string, payload []byte, period time.Duration, at time.Time) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", fmt.Errorf("client: unique key: %w", err)
	}
	text := append([]byte(jobType), '\n')
	text = append(appendCanonical(text, value), '\n')
	if period > 0 {
		text = at.UTC().Truncate(period).AppendFormat(text, time.RFC3339Nano)
	}
	sum := sha256.Sum256(text)
	return "unique:" + hex.EncodeToString(sum[:]), nil
}

// appendCanonical writes a value that was decoded with UseNumber.
func appendCanonical(text []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(text, "null"...)
	case bool:
		return strconv.AppendBool(text, v)
	case json.Number:
		return append(text, v...)
	case string:
		return appendString(text, v)
	case []any:
		text = append(text, '[')
		for i, element := range v {
			if i > 0 {
				text = append(text, ',')
			}
			text = appendCanonical(text, element)
		}
		return append(text, ']')
	case map[string]any:
		text = append(text, '{')
		for i, name := range slices.SortedFunc(maps.Keys(v), compareUTF16) {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(appendString(text, name), ':')
			text = appendCanonical(text, v[name])
		}
		return append(text, '}')
	}
	return text // not possible: the decoder makes no other types
}

func compareUTF16(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// appendString writes a string with the escapes of RFC 8785, section 3.2.2.2.
func appendString(text []byte, s string) []byte {
	text = append(text, '"')
	for _, c := range s {
		switch c {
		case '"', '\\':
			text = append(text, '\\', byte(c))
		case '\b':
			text = append(text, `\b`...)
		case '\f':
			text = append(text, `\f`...)
		case '\n':
			text = append(text, `\n`...)
		case '\r':
			text = append(text, `\r`...)
		case '\t':
			text = append(text, `\t`...)
		default:
			if c < ' ' {
				text = fmt.Appendf(text, `\u%04x`, c)
				continue
			}
			text = append(text, string(c)...)
		}
	}
	return append(text, '"')
}
