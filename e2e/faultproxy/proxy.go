// Package faultproxy stands between a client and a server on the same machine,
// lets requests through, and loses the answers it is told to lose: after the
// server has done the work, before the client knows. It counts what it lost.
package faultproxy

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Faults says which answers are lost: each with the same chance, as long as
// there are some left. The same seed makes the same choices.
type Faults struct {
	mu     sync.Mutex
	random *rand.Rand
	chance float64
	left   int
	lost   map[string]int
	seen   map[string]int
}

// NewFaults loses nothing until Lose is called.
func NewFaults(seed uint64) *Faults {
	return &Faults{random: rand.New(rand.NewPCG(seed, 0)), lost: map[string]int{}, seen: map[string]int{}}
}

// Lose makes the next answers get lost with a chance, n of them at most.
func (f *Faults) Lose(chance float64, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chance, f.left = chance, n
}

// Lost counts lost answers by kind: the method and route's last word for HTTP,
// the command's tag for PostgreSQL.
func (f *Faults) Lost() map[string]int { return f.copied(f.lost) }

// Seen counts the answers that could have been lost.
func (f *Faults) Seen() map[string]int { return f.copied(f.seen) }

// Total sums Lost.
func (f *Faults) Total() int {
	sum := 0
	for _, n := range f.Lost() {
		sum += n
	}
	return sum
}

func (f *Faults) copied(from map[string]int) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(from)
}

// decide says whether this answer is lost.
func (f *Faults) decide(kind string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[kind]++
	if f.left <= 0 || f.random.Float64() >= f.chance {
		return false
	}
	f.left--
	f.lost[kind]++
	return true
}

// Proxy listens on a loopback address until it is closed.
type Proxy struct {
	listener net.Listener
	network  string
	target   string
	serve    func(client, server net.Conn)

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	group  sync.WaitGroup
}

func start(network, target string, serve func(client, server net.Conn)) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, network: network, target: target, serve: serve, conns: map[net.Conn]bool{}}
	p.group.Go(p.accept)
	return p, nil
}

// Address is where clients dial.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends every connection and waits for their goroutines.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.group.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.group.Go(func() { p.connect(client) })
	}
}

func (p *Proxy) connect(client net.Conn) {
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	server, err := (&net.Dialer{}).DialContext(ctx, p.network, p.target)
	if err != nil {
		return // the client sees a connection that ends, as with a server that is down
	}
	defer func() { _ = server.Close() }()
	if !p.keep(client, server) {
		return
	}
	p.serve(client, server)
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.conns[conn] = true
	}
	return !p.closed
}
