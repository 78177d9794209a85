package plaintext_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/plaintext"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	const fails = "fails"
	for content, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, "\ufeff{}": "{}", "": "", "x": "x", "\ufeff": "", "\xef\xbb": "\xef\xbb", "日本": "日本", "12": "12",
		"{\x00}\x00": fails, "\x00{\x00}": fails, "\xff\xfe{\x00}\x00": fails, "\xfe\xff\x00{": fails, "\xff\xfe": fails,
		"\xff\xfe\x00\x00{\x00\x00\x00": fails, "\x00\x00\xfe\xff": fails,
	} {
		read := func() ([]byte, error) {
			from, err := plaintext.Reader(strings.NewReader(content))
			if err != nil {
				return nil, err
			}
			return io.ReadAll(from)
		}
		for how, decode := range map[string]func() ([]byte, error){"Decode": func() ([]byte, error) { return plaintext.Decode([]byte(content)) }, "Reader": read} {
			got, err := decode()
			if want == fails && !errors.Is(err, plaintext.ErrNotUTF8) || want != fails && (string(got) != want || err != nil) {
				t.Errorf("%s of %q: %q %v, want %q", how, content, got, err, want)
			}
		}
	}
}
