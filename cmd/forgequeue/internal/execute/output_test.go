package execute

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCapped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		writes []string
		over   bool
	}{
		{[]string{"12345678"}, false},
		{[]string{"1234", "5678", "\n"}, false},
		{[]string{"12345678\r\n"}, false},
		{[]string{"12345678", "9"}, true},
		{[]string{"12345678\n\n\n"}, true},
		{[]string{"12345678\n", "9"}, true},
		{[]string{strings.Repeat("x", 100), "y"}, true},
	} {
		out := &capped{limit: 8}
		for _, text := range c.writes {
			if n, err := out.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%q: %d %v", text, n, err)
			}
		}
		if out.over != c.over || out.kept.Len() > 8+slack {
			t.Errorf("%q: over %v, %d bytes kept", c.writes, out.over, out.kept.Len())
		}
	}
}

// What is copied into it by io.Copy, as os/exec does, is bounded as well.
func TestCappedIsBoundedForCopies(t *testing.T) {
	t.Parallel()
	out := &capped{limit: 8}
	if _, err := io.Copy(out, io.LimitReader(zeros{}, 1<<20)); err != nil || !out.over || out.kept.Len() > 8+slack {
		t.Errorf("over %v, %d bytes kept, %v", out.over, out.kept.Len(), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestTail(t *testing.T) {
	t.Parallel()
	var through bytes.Buffer
	out := &tail{limit: 10, through: &through}
	_, _ = out.Write([]byte("äöü"))
	if out.String() != "äöü" {
		t.Errorf("%q", out)
	}
	for range 3 {
		_, _ = out.Write([]byte("€€"))
	}
	if text := out.String(); text != "…€€€" || !utf8.ValidString(text) {
		t.Errorf("%q", text)
	}
	if through.String() != "äöü€€€€€€" {
		t.Errorf("%q", through.String())
	}
	broken := &tail{limit: 10, through: &through}
	_, _ = broken.Write([]byte("a\xffb\n"))
	if broken.String() != "a\uFFFDb" {
		t.Errorf("%q", broken)
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"": "", " \n": "", "null\n": "null", `{"a":1.10}` + "\n": `{"a":1.10}`, "text\n\n": `"text"`, "  indented": `"  indented"`,
		"NaN": `"NaN"`, "1 2": `"1 2"`, "a\"<b>&": `"a\"<b>&"`, "\xff": `"\ufffd"`,
	} {
		got, err := result([]byte(output))
		if err != nil || string(got) != want {
			t.Errorf("%q: %s %v, want %s", output, got, err, want)
		}
	}
}
