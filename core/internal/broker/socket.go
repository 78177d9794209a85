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

// security is when a connection is encrypted.
type security int

const (
	plainText security = iota
	tlsAtOnce
	// tlsLater: by whom dialled, before it sends a secret.
	tlsLater
)

func securityOf(encrypted bool, when security) security {
	if encrypted {
		return when
	}
	return plainText
}

// dialFunc makes a socket. Its address is checked.
type dialFunc func(ctx context.Context, host, port string, by security) (*socket, error)

// socket is a counted connection whose reads a guard sees.
type socket struct {
	net.Conn
	// inspect is asked about what was read, before the library gets it; nil for nobody.
	inspect func(read []byte) error
	free    func()
}

func (p *Pool) dial(ctx context.Context, key connKey, host, port string, by security) (*socket, error) {
	if !p.sockets.take(key) {
		return nil, &RefusalError{Kind: kindTooMany, Message: fmt.Sprintf(
			"there are too many connections: a target has at most %d, a tenant %d", socketsOfTarget, socketsOfTenant)}
	}
	free := sync.OnceFunc(func() { p.sockets.free(key) })
	dial := map[security]func(context.Context, string, string) (net.Conn, error){
		plainText: p.dialer.Plain, tlsAtOnce: p.dialer.Encrypted, tlsLater: p.dialer.Reach,
	}[by]
	conn, err := dial(ctx, host, port)
	if err != nil {
		free()
		return nil, err
	}
	return &socket{Conn: conn, free: free}, nil
}

// errGuard ends a connection whose broker sends what none has to.
var errGuard = errors.New("broker: the broker does not keep to its protocol")

// Read implements net.Conn.
func (s *socket) Read(into []byte) (int, error) {
	n, err := s.Conn.Read(into)
	if s.inspect != nil && n > 0 {
		if wrong := s.inspect(into[:n]); wrong != nil {
			_ = s.Close()
			return 0, wrong
		}
	}
	return n, err
}

// Write implements net.Conn.
func (s *socket) Write(from []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return s.Conn.Write(from)
}

// SetDeadline implements net.Conn. That of writes is set by Write.
func (s *socket) SetDeadline(at time.Time) error { return s.SetReadDeadline(at) }

// Close implements net.Conn.
func (s *socket) Close() error {
	defer s.free()
	return s.Conn.Close()
}
