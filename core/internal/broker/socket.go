package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// A Kafka cluster may name any number of brokers.
	socketsOfTarget = 64
	socketsOfTenant = 256
	// writeTime bounds one write: a broker that does not read holds nobody for longer.
	writeTime = 5 * time.Second
)

// sockets counts those that are open.
type sockets struct {
	mu       sync.Mutex
	byTarget map[connKey]int
	byTenant map[tenant.ID]int
}

func (s *sockets) take(key connKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byTarget == nil {
		s.byTarget, s.byTenant = map[connKey]int{}, map[tenant.ID]int{}
	}
	if s.byTarget[key] >= socketsOfTarget || s.byTenant[key.tenant] >= socketsOfTenant {
		return false
	}
	s.byTarget[key]++
	s.byTenant[key.tenant]++
	return true
}

func (s *sockets) free(key connKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byTarget[key]--; s.byTarget[key] == 0 {
		delete(s.byTarget, key)
	}
	if s.byTenant[key.tenant]--; s.byTenant[key.tenant] == 0 {
		delete(s.byTenant, key.tenant)
	}
}

// Security is when a connection is encrypted.
type Security int

const (
	// PlainText is never.
	PlainText Security = iota
	// TLSAtOnce is before anything else.
	TLSAtOnce
	// TLSLater is by the client that was dialled, before it sends a secret.
	TLSLater
)

// SecurityOf is when a connection is encrypted, if it is.
func SecurityOf(encrypted bool, when Security) Security {
	if encrypted {
		return when
	}
	return PlainText
}

// Dial makes a socket. Its address is checked.
type Dial func(ctx context.Context, host, port string, by Security) (*Socket, error)

// Socket is a counted connection whose reads a guard sees.
type Socket struct {
	net.Conn
	// Inspect is asked about what was read, before the library gets it; nil for nobody.
	Inspect func(read []byte) error
	free    func()
}

func (p *Pool) dial(ctx context.Context, key connKey, host, port string, by Security) (*Socket, error) {
	if !p.sockets.take(key) {
		return nil, &RefusalError{Kind: KindTooMany, Message: fmt.Sprintf(
			"there are too many connections: a target has at most %d, a tenant %d", socketsOfTarget, socketsOfTenant)}
	}
	free := sync.OnceFunc(func() { p.sockets.free(key) })
	dial := map[Security]func(context.Context, string, string) (net.Conn, error){
		PlainText: p.dialer.Plain, TLSAtOnce: p.dialer.Encrypted, TLSLater: p.dialer.Reach,
	}[by]
	conn, err := dial(ctx, host, port)
	if err != nil {
		free()
		return nil, err
	}
	return &Socket{Conn: conn, free: free}, nil
}

// ErrGuard ends a connection whose broker sends what none has to.
var ErrGuard = errors.New("broker: the broker does not keep to its protocol")

// Read implements net.Conn.
func (s *Socket) Read(into []byte) (int, error) {
	n, err := s.Conn.Read(into)
	if s.Inspect != nil && n > 0 {
		if wrong := s.Inspect(into[:n]); wrong != nil {
			_ = s.Close()
			return 0, wrong
		}
	}
	return n, err
}

// Write implements net.Conn.
func (s *Socket) Write(from []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return s.Conn.Write(from)
}

// SetDeadline implements net.Conn. That of writes is set by Write.
func (s *Socket) SetDeadline(at time.Time) error { return s.SetReadDeadline(at) }

// Close implements net.Conn.
func (s *Socket) Close() error {
	defer s.free()
	return s.Conn.Close()
}
