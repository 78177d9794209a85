package broker

import (
	"sync/atomic"
	"time"
)

// A broker may send so much on one connection: at once, in each second, and for each message, in addition to twice the
// message itself, which AMQP returns. Its replies need far less.
const (
	allowedAtOnce     = 4 << 20
	allowedEachSecond = 64 << 10
	allowedPerMessage = 16 << 10
)

// Allowance is what the broker of one connection may send; of Kafka the whole cluster.
type Allowance struct {
	// published are the messages that were sent to it, bytes what it may send because of them.
	published, bytes atomic.Int64
	since            time.Time
	// got is what it has sent.
	got atomic.Int64
}

// NewAllowance is that of a connection which begins now.
func NewAllowance() *Allowance { return &Allowance{since: time.Now()} }

// Sent notes a message, before it is sent.
func (a *Allowance) Sent(m *Message) {
	a.bytes.Add(allowedPerMessage + 2*int64(len(m.Body)))
	a.published.Add(1)
}

// Take takes what was read off the allowance.
func (a *Allowance) Take(read int) error {
	if a.got.Add(int64(read)) > allowedAtOnce+a.bytes.Load()+int64(time.Since(a.since).Seconds()*allowedEachSecond) {
		return ErrGuard
	}
	return nil
}

// Published is how many messages were sent.
func (a *Allowance) Published() int64 { return a.published.Load() }
