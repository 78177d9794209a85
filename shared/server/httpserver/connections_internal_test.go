package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"testing"
)

// from is a connection of an address; closing it is all that it can.
type from struct {
	net.Conn
	address string
	closed  bool
}

func (f *from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(f.address), 1))
}

func (f *from) Close() error {
	f.closed = true
	return nil
}

// The bounds hold whatever comes, the connection that is idle longest goes, and one
// that is busy never does.
func TestConnectionBounds(t *testing.T) {
	t.Parallel()
	proxy := netip.MustParseAddr("198.51.100.9")
	c := &connections{limits: Connections{Most: 6, PerAddress: 2, Exempt: func(a netip.Addr) bool { return a == proxy }}}
	open := func(address string) *connection { return c.admit(&from{address: address}) }
	closed := func(conn *connection) bool { return conn.Conn.(*from).closed }
	busy := func(conn *connection) { c.changed(conn, http.StateActive) }

	a1, a2 := open("192.0.2.1"), open("192.0.2.1")
	busy(a1)
	a3 := open("192.0.2.1")
	if closed(a1) || !closed(a2) || a3 == nil {
		t.Fatalf("of an address: busy closed %v, idle closed %v", closed(a1), closed(a2))
	}
	c.changed(a2, http.StateClosed) // its goroutine has noticed; it must not count twice
	busy(a3)
	if open("192.0.2.1") != nil {
		t.Error("a third busy one of an address")
	}
	c.changed(a3, http.StateIdle)
	if v6 := open("2001:db8::1"); v6 == nil || open("2001:db8::2") == nil || open("2001:db8::3") == nil || !closed(v6) {
		t.Error("a /64 is not one address")
	}
	// a1 is busy; idle are a3, two of the /64. A proxy may have all there is.
	for i := range 2 {
		if open("198.51.100.9") == nil {
			t.Fatalf("proxy's connection %d was refused", i)
		}
	}
	if closed(a3) || c.open != 6 {
		t.Fatalf("closed %v before there were too many: %d", closed(a3), c.open)
	}
	if open("127.0.0.1") == nil || !closed(a3) || closed(a1) || c.open != 6 {
		t.Errorf("beyond all: the longest idle closed %v, a busy one %v, %d open", closed(a3), closed(a1), c.open)
	}
	for conn := c.idle.first(); conn != nil; conn = c.idle.first() {
		busy(conn)
	}
	if open("203.0.113.1") != nil {
		t.Error("one was let in although all are busy")
	}
	c.changed(a1, http.StateClosed)
	if open("203.0.113.1") == nil || open("203.0.113.2") == nil {
		t.Error("none was let in although there is room, or an idle one")
	}
}

// A proxy is known by its own address, and its connections are no neighbour's.
func TestAnExemptIPv6Address(t *testing.T) {
	t.Parallel()
	proxy := netip.MustParseAddr("2001:db8::9")
	c := &connections{limits: Connections{PerAddress: 2, Exempt: func(a netip.Addr) bool { return a == proxy }}}
	open := func(address string) *connection {
		conn := c.admit(&from{address: address})
		if conn != nil {
			c.changed(conn, http.StateActive)
		}
		return conn
	}
	for i := range 5 {
		if open("2001:db8::9") == nil {
			t.Fatalf("the proxy's connection %d was refused", i)
		}
	}
	if open("2001:db8::1") == nil || open("2001:db8::2") == nil || open("2001:db8::3") != nil {
		t.Error("others of its /64 have not two connections")
	}
}

// Read gives one byte.
func (f *from) Read(p []byte) (int, error) { return copy(p, "G"), nil }

// A connection on which a request has begun to come is closed after those that are silent.
func TestABegunRequestIsNotIdle(t *testing.T) {
	t.Parallel()
	c := &connections{limits: Connections{Most: 3}}
	var conns []*connection
	open := func() { conns = append(conns, c.admit(&from{address: "192.0.2.1"})) }
	is := func(i int, want bool) {
		t.Helper()
		if got := conns[i].Conn.(*from).closed; got != want {
			t.Errorf("connection %d closed: %v", i, got)
		}
	}
	begin := func(conn *connection) {
		if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	for range 3 {
		open()
	}
	begin(conns[0])
	begin(conns[0]) // the rest of its headers does not move it again
	begin(conns[1])
	open()
	is(0, false)
	is(1, false)
	is(2, true)
	open() // 0 began first, but 3 came later than it began
	is(0, true)
	begin(conns[2]) // it was closed; it must not come back
	c.changed(conns[1], http.StateActive)
	begin(conns[1])
	open()
	is(1, false)
	is(3, true)
	if c.open != 3 {
		t.Errorf("%d are open", c.open)
	}
}

func TestDefaultConnections(t *testing.T) {
	t.Parallel()
	if n := DefaultConnections(); n < 16 || n > 1<<20 {
		t.Errorf("%d", n)
	}
}
