package seal_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/seal"
)

func keys(t *testing.T, texts ...string) *seal.Keys {
	t.Helper()
	made, err := seal.New(texts...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestSecretsOpenWithTheirKeyInTheirPlaceAlone(t *testing.T) {
	t.Parallel()
	one, other := strings.Repeat("1", 32), strings.Repeat("2", 32)
	secret := []byte("whsec_of_a_queue")
	sealed := keys(t, one).Seal(secret, "a")
	if bytes.Contains(sealed, secret) || bytes.Equal(sealed, keys(t, one).Seal(secret, "a")) {
		t.Error("what is sealed shows what it holds")
	}
	if got, stale, err := keys(t, one).Open(sealed, "a"); err != nil || stale || !bytes.Equal(got, secret) {
		t.Errorf("opened: %q, stale %v, %v", got, stale, err)
	}
	if got, stale, err := keys(t, other, one).Open(sealed, "a"); err != nil || !stale || !bytes.Equal(got, secret) {
		t.Errorf("opened with the key before: %q, stale %v, %v", got, stale, err)
	}
	damaged := bytes.Clone(sealed)
	damaged[len(damaged)-1] ^= 1
	for name, open := range map[string]func() ([]byte, bool, error){
		"another key":   func() ([]byte, bool, error) { return keys(t, other).Open(sealed, "a") },
		"another place": func() ([]byte, bool, error) { return keys(t, one).Open(sealed, "b") },
		"damaged":       func() ([]byte, bool, error) { return keys(t, one).Open(damaged, "a") },
		"nothing":       func() ([]byte, bool, error) { return keys(t, one).Open(nil, "a") },
		"a part":        func() ([]byte, bool, error) { return keys(t, one).Open(sealed[:10], "a") },
	} {
		if got, _, err := open(); !errors.Is(err, seal.ErrOpen) || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestShortKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, texts := range [][]string{nil, {""}, {strings.Repeat("x", 31)}, {strings.Repeat("x", 32), "short"}} {
		if _, err := seal.New(texts...); err == nil {
			t.Errorf("%q are taken for keys", texts)
		}
	}
}
