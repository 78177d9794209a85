package request_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
)

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values []string
		want   string
		bad    bool
	}{
		{"no header", nil, "", false},
		{"bare", []string{"8e03978e-40d5-43dd-bc93-6894a57f9324"}, "8e03978e-40d5-43dd-bc93-6894a57f9324", false},
		{"quoted is the same key", []string{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}, "8e03978e-40d5-43dd-bc93-6894a57f9324", false},
		{"space around", []string{"  a\t"}, "a", false},
		{"escapes", []string{`"a\"b\\c"`}, `a"b\c`, false},
		{"longest bare", []string{strings.Repeat("k", 255)}, strings.Repeat("k", 255), false},
		{"longest quoted", []string{`"` + strings.Repeat("k", 255) + `"`}, strings.Repeat("k", 255), false},
		{"empty", []string{""}, "", true},
		{"empty quoted", []string{`""`}, "", true},
		{"only space", []string{"  "}, "", true},
		{"too long", []string{strings.Repeat("k", 256)}, "", true},
		{"repeated", []string{"a", "a"}, "", true},
		{"space inside", []string{"a b"}, "", true},
		{"space inside quotes", []string{`"a b"`}, "", true},
		{"joined by a proxy", []string{"a, b"}, "", true},
		{"half quoted", []string{`"a`}, "", true},
		{"quote at the end", []string{`a"`}, "", true},
		{"lone quote", []string{`"`}, "", true},
		{"quote inside", []string{`"a"b"`}, "", true},
		{"other escape", []string{`"a\n"`}, "", true},
		{"escape at the end", []string{`"a\"`}, "", true},
		{"parameters", []string{`"a";v=1`}, "", true},
		{"not ASCII", []string{"ä"}, "", true},
		{"control", []string{"a\x7f"}, "", true},
	}
	for _, test := range tests {
		got, err := request.IdempotencyKey(test.values)
		if got != test.want || errors.Is(err, request.ErrIdempotencyKey) != test.bad {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
}

// Every key has a quoted form, and it is the same key.
func TestQuotedIsTheSameKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[!-~]{1,255}`).Draw(t, "key")
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		got, err := request.IdempotencyKey([]string{quoted})
		if err != nil || got != key {
			t.Fatalf("%s became %q, %v", quoted, got, err)
		}
		if !strings.Contains(key, `"`) {
			if bare, err := request.IdempotencyKey([]string{key}); err != nil || bare != key {
				t.Fatalf("bare %s became %q, %v", key, bare, err)
			}
		}
	})
}
