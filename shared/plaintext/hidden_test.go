package plaintext_test

import (
	"encoding/json"
	"testing"

	"github.com/forgequeue/forgequeue/shared/plaintext"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	hidden := []rune{0x61c, 0x200b, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069, 0xfeff}
	for _, c := range hidden {
		text := "a" + string(c) + "b"
		got := plaintext.Visible(text)
		var same string
		if err := json.Unmarshal([]byte(`"`+got+`"`), &same); err != nil || same != text || len(got) != len(`a\u202eb`) {
			t.Errorf("%U is %q: %v", c, got, err)
		}
	}
	for _, text := range []string{"", "plain", "日本語", "می\u200cخواهم", "👩\u200d🔧", "1\u202f200\u00a0s", "עברית"} {
		if got := plaintext.Visible(text); got != text {
			t.Errorf("%q is %q", text, got)
		}
	}
}
