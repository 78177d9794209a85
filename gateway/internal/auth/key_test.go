package auth_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
)

func TestMintedKeysParse(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 200 {
		key := auth.Mint("live", keySecret)
		text := key.Text()
		parsed, err := auth.Parse(text)
		if err != nil || parsed != key {
			t.Fatalf("Parse(%q) = %+v, %v; minted %+v", text, parsed, err, key)
		}
		if !strings.HasPrefix(text, "fq_live_") || len(key.ID) != 16 || len(key.Secret) != 38 || !auth.ValidKeyID(key.ID) {
			t.Fatalf("not the agreed form: %s", text)
		}
		if seen[key.Secret] || seen[key.ID] {
			t.Fatal("drawn twice")
		}
		seen[key.Secret], seen[key.ID] = true, true
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := auth.Mint("live", keySecret).Text()
	short := auth.Key{Env: "live", ID: "abcdefghijklmnop", Secret: "tooshort"}.Text()
	longID := auth.Key{Env: "live", ID: strings.Repeat("a", 17), Secret: strings.Repeat("b", 38)}.Text()
	badEnv := auth.Key{Env: "LIVE", ID: "abcdefghijklmnop", Secret: strings.Repeat("b", 38)}.Text()
	score := auth.Key{Env: "live", ID: "abcdefghijklmnop", Secret: strings.Repeat("b", 37) + "_"}.Text()
	for _, text := range []string{
		"", "_", "fq", "fq_live", good[:len(good)-1], good + "0", strings.ToUpper(good), " " + good, good + "\n",
		strings.Replace(good, "fq_live", "fq_test", 1), short, longID, badEnv, score, strings.Repeat("fq_", 10_000), "\x00",
	} {
		if key, err := auth.Parse(text); err == nil {
			t.Errorf("Parse took %q: %+v", text, key)
		}
	}
}

// One wrong character anywhere is found without a look-up: CRC-32 finds every
// single error.
func TestChecksumFindsATypingError(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(auth.Mint("live", keySecret).Text())
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		other := rapid.ByteRange(33, 126).Draw(t, "other")
		if text[at] == other {
			t.Skip("not an error")
		}
		text[at] = other
		if _, err := auth.Parse(string(text)); err == nil {
			t.Fatalf("took %s", text)
		}
	})
}

func TestParseNeverPanics(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, _ = auth.Parse(rapid.String().Draw(t, "text"))
	})
}

// The stored form of old keys must never change, or they all stop working.
func TestHMACStaysAsItIs(t *testing.T) {
	t.Parallel()
	key := auth.Key{Env: "live", ID: "0123456789abcdef", Secret: "abcdefghijklmnopqrstuvwxyz0"}
	const want = "e5baf432c75c5190c89a9db7ec60a977a70a02676eb0f158eac317357ef882b6"
	if got := hex.EncodeToString(key.HMAC([]byte(strings.Repeat("k", 32)))); got != want {
		t.Errorf("HMAC = %s, want %s", got, want)
	}
	const text = "fq_live_0123456789abcdef_abcdefghijklmnopqrstuvwxyz01CKdxI"
	if got := key.Text(); got != text {
		t.Errorf("Text = %s, want %s", got, text)
	}
}
