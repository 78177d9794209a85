package execute

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// capped keeps output up to a limit, and knows when there was more. It takes all
// that comes: a command must not be stopped by a full pipe. The buffer is not
// embedded: io.Copy would find its ReadFrom, which knows no limit.
type capped struct {
	kept  bytes.Buffer
	limit int
	over  bool
}

func (c *capped) Write(p []byte) (int, error) {
	// White space at the end may pass the limit; it is cut off later.
	room := c.limit + slack - c.kept.Len()
	_, _ = c.kept.Write(p[:min(room, len(p))]) // a buffer never fails
	c.over = c.over || len(p) > room || c.kept.Len() > c.limit && len(bytes.TrimSpace(c.kept.Bytes())) > c.limit
	return len(p), nil
}

// slack is for the line end that most programs write.
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
	_, _ = t.through.Write(p) // the worker's own log being gone is no reason to fail a job
	return len(p), nil
}

// String is the end as text, from a whole character on.
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
