package broker

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// noted is a connection that notes its end.
type noted struct {
	closed chan struct{}
	over   bool
}

func (*noted) Publish(context.Context, *api.Broker, *Message) error { return nil }
func (n *noted) Usable() bool                                       { return !n.over }
func (n *noted) Close()                                             { close(n.closed) }

func (n *noted) isClosed() bool {
	select {
	case <-n.closed:
		return true
	default:
		return false
	}
}

// idle puts a connection into a pool that was used some time ago.
func idle(p *Pool, owner tenant.ID, url string, ago time.Duration) *noted {
	conn := &noted{closed: make(chan struct{})}
	e := &entry{key: connKey{tenant: owner, url: url}, ready: make(chan struct{}), conn: conn, used: time.Now().Add(-ago)}
	close(e.ready)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[e.key] = e
	return conn
}

// leaveOnce uses a connection.
func leaveOnce(p *Pool, owner tenant.ID, url string) {
	p.mu.Lock()
	e := p.conns[connKey{tenant: owner, url: url}]
	e.users++
	p.mu.Unlock()
	p.leave(e)
}

// A tenant keeps so many idle connections, those that were used last; all tenants together keep so many too.
func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	p := NewPool(outbound.Options{}, nil)
	greedy, other := uuid.New(), uuid.New()
	kept := idle(p, other, "x", time.Hour)
	var conns []*noted
	for i := range idleOfTenant + 3 {
		conns = append(conns, idle(p, greedy, strconv.Itoa(i), time.Duration(100-i)*time.Second))
	}
	for range 5 {
		leaveOnce(p, greedy, strconv.Itoa(idleOfTenant+2))
	}
	p.closing.Wait()
	for i, conn := range conns {
		if conn.isClosed() != (i < 3) {
			t.Errorf("no. %d of %d is closed: %v", i, len(conns), conn.isClosed())
		}
	}
	if kept.isClosed() {
		t.Error("another tenant's connection was closed for it")
	}
	for i := range idleMost {
		idle(p, uuid.New(), strconv.Itoa(i), time.Minute)
	}
	leaveOnce(p, greedy, strconv.Itoa(idleOfTenant+2))
	p.closing.Wait()
	if !kept.isClosed() {
		t.Error("the oldest is kept above the bound")
	}
}

// What is idle for long or over is closed; what is used is not, and after it was retired when its last user leaves.
func TestConnectionsEnd(t *testing.T) {
	t.Parallel()
	p := NewPool(outbound.Options{}, nil)
	owner := uuid.New()
	old, fresh, over, used := idle(p, owner, "old", 2*IdleTime), idle(p, owner, "fresh", 0), idle(p, owner, "over", 0), idle(p, owner, "used", 2*IdleTime)
	over.over = true
	p.mu.Lock()
	e := p.conns[connKey{tenant: owner, url: "used"}]
	e.users = 2
	p.mu.Unlock()
	p.sweep(p.isDone)
	p.closing.Wait()
	if !old.isClosed() || fresh.isClosed() || !over.isClosed() || used.isClosed() {
		t.Errorf("closed: old %v, fresh %v, over %v, used %v", old.isClosed(), fresh.isClosed(), over.isClosed(), used.isClosed())
	}
	p.retire(e)
	p.leave(e)
	p.closing.Wait()
	if used.isClosed() || p.conns[e.key] != nil {
		t.Error("a retired connection is closed under its user, or used again")
	}
	p.leave(e)
	p.closing.Wait()
	if !used.isClosed() {
		t.Error("a retired connection stays open")
	}
}

// The sockets of a target and of a tenant are bounded, and are free again when they are closed.
func TestSocketsAreBounded(t *testing.T) {
	t.Parallel()
	var s sockets
	owner := uuid.New()
	took := 0
	for i := range 10 {
		for range socketsOfTarget + 5 {
			if s.take(connKey{tenant: owner, url: strconv.Itoa(i)}) {
				took++
			}
		}
	}
	if took != socketsOfTenant || !s.take(connKey{tenant: uuid.New()}) {
		t.Errorf("%d sockets of a tenant", took)
	}
	first := connKey{tenant: owner, url: "0"}
	s.free(first)
	if !s.take(first) || s.take(first) {
		t.Error("a freed socket is not free, or more than that")
	}
}
