// Package resp checks what comes from Redis before a client library reads it.
//
// The library trusts the server's lengths: it allocates what a reply declares and
// recurses as deep as a reply nests, so that a server with malformed replies could
// end the process, in a goroutine that is not ours. Here the framing
// of RESP (https://redis.io/docs/latest/develop/reference/protocol-spec/) is followed
// byte by byte, and what breaks it or is larger than any answer that we ask for ends
// the connection with an ordinary error.
package resp

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"syscall"
)

// What a reply may have. The largest that we ask for is a hint of 1000 lines, or the
// layout of a cluster.
const (
	maxReply    = 16 << 20 // bytes
	maxString   = 8 << 20
	maxElements = 100_000
	maxDepth    = 8
	maxLine     = 64 << 10
	// lengthDigits is how much of a line is kept, for the length in it.
	lengthDigits = 24
)

// ErrNonsense is what a Read gives for bytes that are no reply, or too large a one.
var ErrNonsense = errors.New("resp: what the server says is no reply of Redis")

// Checked gives a connection whose Read always fails with ErrNonsense once the server
// has sent a malformed reply.
func Checked(inner net.Conn) net.Conn {
	checked := &conn{Conn: inner}
	if raw, ok := inner.(syscall.Conn); ok { // the library looks whether idle connections are alive
		return &rawConn{checked, raw}
	}
	return checked
}

type conn struct {
	net.Conn
	frames frames
	failed bool
}

type rawConn struct {
	*conn
	syscall.Conn
}

// Read gives nothing of a chunk that breaks the framing.
func (c *conn) Read(p []byte) (int, error) {
	if c.failed {
		return 0, ErrNonsense
	}
	n, err := c.Conn.Read(p)
	if !c.frames.take(p[:n]) {
		c.failed = true
		return 0, ErrNonsense
	}
	return n, err
}

// frames follows the replies of one connection. The zero value is before the first.
type frames struct {
	// kind is the first byte of the line under way, 0 between lines.
	kind byte
	// head is the beginning of the line, without its first byte.
	head []byte
	line int // bytes of the line so far
	skip int // bytes that are left of a string, its end of line included
	// open has how many elements each aggregate still lacks, the outermost first.
	open     []int
	elements int // of the reply under way
	bytes    int // likewise
}

// take goes on with p; false is nonsense.
func (f *frames) take(p []byte) bool {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			p, f.skip, f.bytes = p[n:], f.skip-n, f.bytes+n
			if f.skip == 0 {
				f.ended()
			}
		} else {
			var ok bool
			if p, ok = f.takeLine(p); !ok {
				return false
			}
		}
		if f.bytes > maxReply {
			return false
		}
	}
	return true
}

// takeLine takes what p has of a line and gives what follows.
func (f *frames) takeLine(p []byte) (rest []byte, ok bool) {
	if f.kind == 0 {
		if p[0] == 0 {
			return nil, false
		}
		f.kind, f.line, f.head = p[0], 0, f.head[:0]
		f.bytes++
		p = p[1:]
	}
	part, rest, whole := bytes.Cut(p, []byte{'\n'})
	f.head = append(f.head, part[:min(len(part), lengthDigits-len(f.head))]...)
	f.line, f.bytes = f.line+len(part), f.bytes+len(part)
	if f.line > maxLine || !whole {
		return nil, f.line <= maxLine
	}
	ok = f.lineEnded()
	f.kind = 0
	return rest, ok
}

func (f *frames) lineEnded() bool {
	switch f.kind {
	case '+', '-', ':', '_', ',', '#', '(':
		f.ended()
		return true
	case '$', '!', '=':
		n, ok := f.length(maxString)
		if !ok {
			return false
		}
		if n < 0 {
			f.ended()
			return true
		}
		f.skip = n + len("\r\n")
		return true
	case '*', '~', '>', '%':
		n, ok := f.length(maxElements)
		if !ok {
			return false
		}
		if f.kind == '%' {
			n *= 2
		}
		return f.opened(n)
	}
	return false
}

// length reads a line's number, -1 for null.
func (f *frames) length(most int) (int, bool) {
	n, err := strconv.Atoi(string(bytes.TrimSuffix(f.head, []byte{'\r'})))
	return n, err == nil && n >= -1 && n <= most
}

func (f *frames) opened(n int) bool {
	if n <= 0 {
		f.ended()
		return true
	}
	f.elements += n
	f.open = append(f.open, n)
	return len(f.open) <= maxDepth && f.elements <= maxElements
}

// ended counts an element that is whole, and those that it completes.
func (f *frames) ended() {
	for last := len(f.open) - 1; last >= 0; last-- {
		if f.open[last]--; f.open[last] > 0 {
			return
		}
		f.open = f.open[:last]
	}
	f.elements, f.bytes = 0, 0
}
