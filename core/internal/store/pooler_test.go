package store_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// pooler is a pooler as PgBouncer is one, as far as core notices.
type pooler struct {
	t   *testing.T
	url string
	// shared gives all clients one session of the server, a transaction each: pool_mode=transaction.
	shared bool
	// drops leaves out what clients ask for when they connect: ignore_startup_parameters.
	drops bool

	ids atomic.Uint32
	mu  sync.Mutex
	one *session
}

// session is one of the server's.
type session struct {
	*pgconn.HijackedConn

	turn sync.Mutex
}

// start gives the database's URL through the pooler.
func (p *pooler) start() string {
	p.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer func() { _ = client.Close() }()
				p.serve(client)
			})
		}
	})
	p.t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
		if p.one != nil {
			_ = p.one.Conn.Close()
		}
	})
	config, err := pgconn.ParseConfig(p.url)
	if err != nil {
		p.t.Fatal(err)
	}
	return "postgres://" + config.User + "@" + listener.Addr().String() + "/" + config.Database + "?sslmode=disable"
}

func (p *pooler) serve(client net.Conn) {
	backend := pgproto3.NewBackend(client, client)
	message, err := backend.ReceiveStartupMessage()
	startup, ok := message.(*pgproto3.StartupMessage)
	if err != nil || !ok {
		return
	}
	server := p.server(startup.Parameters)
	if server == nil {
		return
	}
	if !p.shared {
		defer func() { _ = server.Conn.Close() }()
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	for name, value := range server.ParameterStatuses {
		backend.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	backend.Send(&pgproto3.BackendKeyData{ProcessID: 1<<30 + p.ids.Add(1), SecretKey: []byte{1, 2, 3, 4}}) // made up
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for backend.Flush() == nil && p.turn(backend, server) {
	}
}

// server gives the session that a client gets.
func (p *pooler) server(asked map[string]string) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.one != nil {
		return p.one
	}
	config, err := pgconn.ParseConfig(p.url)
	if err != nil {
		return nil
	}
	for name, value := range asked {
		if !p.drops && name != "user" && name != "database" {
			config.RuntimeParams[name] = value
		}
	}
	conn, err := pgconn.ConnectConfig(context.WithoutCancel(p.t.Context()), config)
	if err != nil {
		return nil
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		return nil
	}
	made := &session{HijackedConn: hijacked}
	if p.shared {
		p.one = made
	}
	return made
}

// turn passes what a client sends up to a Query or a Sync, and the answers to it.
func (p *pooler) turn(client *pgproto3.Backend, server *session) bool {
	message, err := client.Receive()
	if err != nil {
		return false
	}
	server.turn.Lock()
	defer server.turn.Unlock()
	for {
		switch message.(type) {
		case *pgproto3.Terminate:
			return false
		case *pgproto3.Query, *pgproto3.Sync:
			server.Frontend.Send(message)
			return server.Frontend.Flush() == nil && answer(client, server)
		}
		server.Frontend.Send(message)
		if message, err = client.Receive(); err != nil {
			return false
		}
	}
}

func answer(client *pgproto3.Backend, server *session) bool {
	for {
		message, err := server.Frontend.Receive()
		if err != nil {
			return false
		}
		client.Send(message)
		if _, last := message.(*pgproto3.ReadyForQuery); last {
			return true
		}
	}
}

// A pooler that keeps sessions, and what core asks for, is no harm; one that does not is refused with
// words.
func TestPoolers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, one := range map[string]struct {
		pooler *pooler
		words  string // empty: accepted
	}{
		"sessions, without the timeout": {&pooler{drops: true}, "SET idle_in_transaction_session_timeout = '30000'"},
		"sessions":                      {&pooler{}, ""},
		"transactions":                  {&pooler{shared: true}, "gives one session's server to another"},
		"transactions, nothing asked":   {&pooler{shared: true, drops: true}, "gives one session's server to another"},
		"sessions, and nothing passed":  {&pooler{drops: true}, "SET enable_seqscan = 'off'"},
	} {
		one.pooler.t, one.pooler.url = t, f.URL
		opened, err := store.Open(t.Context(), store.Options{URL: one.pooler.start(), MaxConns: 2, PoolWait: 5 * time.Second})
		if err == nil {
			opened.Close()
		}
		if (err == nil) != (one.words == "") || err != nil && !strings.Contains(err.Error(), one.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
