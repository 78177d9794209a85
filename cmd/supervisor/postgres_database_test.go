package supervisor

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
)

func TestEnsureDatabaseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	sockets := tempDir(t)
	listener, err := net.Listen("unix", filepath.Join(sockets, postgresSocket)) // connects, and says nothing
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 512))
		}
		cancel()
		<-t.Context().Done() // the client leaves, not the server
	}()
	p := &Postgres{sockets: sockets, user: "u"}
	if err := p.ensureDatabase(ctx, "d"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	away := &Postgres{sockets: "/nowhere", user: "u"}
	must(t, away.ensureDatabase(t.Context(), "")) // nothing to ensure
	mustSay(t, away.ensureDatabase(t.Context(), "d"), "/nowhere")
}
