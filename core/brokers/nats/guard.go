package nats

import (
	"bytes"
	"strconv"

	"github.com/forgequeue/forgequeue/core/internal/broker"
)

// maxNATSLine bounds a line of NATS's protocol, INFO with the addresses of a cluster among them; maxNATSReply a
// stream's reply to a message.
const (
	maxNATSLine  = 64 << 10
	maxNATSReply = 64 << 10
)

// guard reads the lines of a server on their way to the library, and ends the connection at one that is too long, at
// a message that is too large, and at more messages than were published: each is a reply.
type guard struct {
	*broker.Allowance
	line []byte
	// payload is how much of a message, with the end of its line, is still to come.
	payload int
	tail    [2]byte
	replies int64
}

func (g *guard) inspect(read []byte) error {
	if err := g.Take(len(read)); err != nil {
		return err
	}
	for len(read) > 0 {
		if g.payload > 0 {
			n := min(g.payload, len(read))
			for _, b := range read[max(0, n-2):n] {
				g.tail[0], g.tail[1] = g.tail[1], b
			}
			if g.payload -= n; g.payload == 0 && string(g.tail[:]) != "\r\n" {
				return broker.ErrGuard
			}
			read = read[n:]
			continue
		}
		end := bytes.IndexByte(read, '\n') + 1
		if end == 0 {
			end = len(read)
		}
		if len(g.line)+end > maxNATSLine {
			return broker.ErrGuard
		}
		g.line = append(g.line, read[:end]...)
		read = read[end:]
		if g.line[len(g.line)-1] == '\n' {
			if err := g.look(); err != nil {
				return err
			}
			g.line = g.line[:0]
		}
	}
	return nil
}

// look judges a line: MSG subject sid [reply] size, HMSG subject sid [reply] header size, and those without payload.
func (g *guard) look() error {
	fields := bytes.Fields(g.line)
	if len(fields) == 0 {
		return broker.ErrGuard
	}
	switch op := string(bytes.ToUpper(fields[0])); op {
	case "INFO", "PING", "PONG", "+OK", "-ERR":
		return nil
	case "MSG", "HMSG":
		size, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 32)
		if g.replies++; err != nil || size > maxNATSReply || g.replies > g.Published() || len(fields) < 4 || len(fields) > 6 {
			return broker.ErrGuard
		}
		g.payload = int(size) + 2
		return nil
	}
	return broker.ErrGuard
}
