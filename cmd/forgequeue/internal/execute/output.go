package execute

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// capped keeps output up to a limit and records whether there was more. It reads everything, so that a full pipe
// does not block the command. The buffer is not embedded: io.Copy would use its ReadFrom, which has no limit.
type capped struct {
	kept  bytes.Buffer
	limit int
	over  bool
}

func (c *capped) Write(p []byte) (int, error) {
	// White space at the end may exceed the limit; it is removed later.
	room := c.limit + slack - c.kept.Len()
	_, _ = c.kept.Write(p[:min(room, len(p))]) // a buffer never fails
	c.over = c.over || len(p) > room || c.kept.Len() > c.limit && len(bytes.TrimSpace(c.kept.Bytes())) > c.limit
	return len(p), nil
}

// slack is the bytes of a line end.
const slack = 2

// tail keeps the end of what is written to it, and passes everything through.
type tail struct {
	through io.Writer
	limit   int

	mu   sync.Mutex
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.limit; over > 0 {
		t.kept, t.cut = append(t.kept[:0], t.kept[over:]...), true
	}
	t.mu.Unlock()
	_, _ = t.through.Write(p) // a failure of the worker's own log must not fail the job
	return len(p), nil
}

// String is the kept end as text, which begins at a whole character.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept
	if t.cut {
		for len(kept) > 0 && !utf8.RuneStart(kept[0]) {
			kept = kept[1:]
		}
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(kept), "\uFFFD"))
	if t.cut {
		return "…" + text
	}
	return text
}
