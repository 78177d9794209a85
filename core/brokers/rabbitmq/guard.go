package rabbitmq

import (
	"encoding/binary"

	"github.com/forgequeue/forgequeue/core/internal/broker"
)

// Frames and methods of AMQP 0-9-1 that a publisher gets (section 4.2.3 and the chapter of the classes).
const (
	frameMethod, frameHeader, frameBody, frameHeartbeat = 1, 2, 3, 8

	classConnection, classChannel, classBasic, classConfirm = 10, 20, 60, 85
	methodReturn, methodAck, methodNack                     = 50, 80, 120

	frameHead, frameTail = 7, 1
	// maxAMQPBody is the largest message that is returned: a payload in its envelope.
	maxAMQPBody = 4 << 20
)

// guard reads the frames of a broker on their way to the library, and ends the connection at one that no broker has
// to send to a publisher: a message that was not published, or an answer to one.
type guard struct {
	*broker.Allowance
	// head is the beginning of the frame that is being read: its head, and of its payload what is looked at.
	head [frameHead + 12]byte
	// at is the place in the frame, size its length; body are the bytes of content since the last method.
	at, size, body int64
	returns, acks  int64
}

func (g *guard) inspect(read []byte) error {
	if err := g.Take(len(read)); err != nil {
		return err
	}
	for len(read) > 0 {
		n := g.step(read)
		read = read[n:]
		if err := g.look(); err != nil {
			return err
		}
		if g.at == g.size {
			g.at, g.size = 0, 0
		}
	}
	return nil
}

// step goes on to the end of the frame's head, of what is looked at, or of the frame.
func (g *guard) step(read []byte) int {
	end := int64(frameHead)
	switch {
	case g.at >= int64(len(g.head)):
		end = g.size
	case g.at >= frameHead:
		end = min(g.size, int64(len(g.head)))
	}
	n := min(int(end-g.at), len(read))
	if g.at < int64(len(g.head)) {
		copy(g.head[g.at:], read[:n])
	}
	g.at += int64(n)
	return n
}

// look judges a frame when enough of it is there.
func (g *guard) look() error {
	if g.at == frameHead && g.size == 0 {
		length := int64(binary.BigEndian.Uint32(g.head[3:]))
		if length > amqpFrame {
			return broker.ErrGuard
		}
		g.size = frameHead + length + frameTail
		return g.begin(length)
	}
	if g.size == 0 || g.at != min(g.size, int64(len(g.head))) {
		return nil
	}
	payload := g.head[frameHead:min(g.at, g.size-frameTail)]
	switch g.head[0] {
	case frameMethod:
		return g.method(payload)
	case frameHeader: // class, weight, and the size of the body
		if len(payload) < 12 || binary.BigEndian.Uint64(payload[4:]) > maxAMQPBody {
			return broker.ErrGuard
		}
	}
	return nil
}

// begin judges a frame by its head.
func (g *guard) begin(length int64) error {
	channel := binary.BigEndian.Uint16(g.head[1:])
	switch g.head[0] {
	case frameHeartbeat:
		if channel != 0 || length != 0 {
			return broker.ErrGuard
		}
	case frameMethod:
		g.body = 0
	case frameHeader, frameBody:
		if g.head[0] == frameBody {
			g.body += length
		}
		if channel != 1 || g.returns == 0 || g.body > maxAMQPBody {
			return broker.ErrGuard
		}
	default:
		return broker.ErrGuard
	}
	return nil
}

func (g *guard) method(payload []byte) error {
	if len(payload) < 4 {
		return broker.ErrGuard
	}
	class, method := binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])
	switch class {
	case classConnection, classChannel, classConfirm:
		return nil
	case classBasic:
	default:
		return broker.ErrGuard
	}
	published := g.Published()
	switch method {
	case methodReturn:
		g.returns++
	case methodAck, methodNack: // the library counts up to the tag
		g.acks++
		if len(payload) < 12 || binary.BigEndian.Uint64(payload[4:]) > uint64(published) { //nolint:gosec // it only grows
			return broker.ErrGuard
		}
	default:
		return broker.ErrGuard
	}
	if g.returns > published || g.acks > published {
		return broker.ErrGuard
	}
	return nil
}
