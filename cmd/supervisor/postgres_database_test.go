package supervisor

import (
	"bufio"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// answer serves one connection with canned bytes, after it has read a message,
// and closes it; without a reply it stays silent until the client leaves.
func answer(t *testing.T, reply string) (socket string) {
	t.Helper()
	socket = filepath.Join(tempDir(t), "s")
	listener, err := net.Listen("unix", socket)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 512))
		if _, _ = conn.Write([]byte(reply)); reply == "" {
			_, _ = conn.Read(make([]byte, 512))
		}
	}()
	return socket
}

func TestEnsureDatabaseReadsTheServer(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		"R\x00\x00\x00\x08\x00\x00\x00\x03":                "asks for a password",
		"E\x00\x00\x00\x17SFATAL\x00C57P03\x00Mno\x00\x00": "no (SQLSTATE 57P03)",
		"E\x7f\xff\xff\xff":                                "a message of 2147483647 bytes",
		"E\x00\x00\x00\x02":                                "a message of 2 bytes",
	} {
		mustSay(t, ensureDatabase(t.Context(), answer(t, reply), "u", "d"), want)
	}
	ready := "R\x00\x00\x00\x08\x00\x00\x00\x00S\x00\x00\x00\x08a\x00b\x00Z\x00\x00\x00\x05I"
	must(t, ensureDatabase(t.Context(), answer(t, ready), "u", "d"))
	must(t, ensureDatabase(t.Context(), "/nowhere", "u", "")) // nothing to ensure
	mustSay(t, ensureDatabase(t.Context(), "/nowhere", "u", "d\x00"), "zero byte")
}

func TestEnsureDatabaseObeysItsContext(t *testing.T) {
	t.Parallel()
	socket := answer(t, "") // connects, and says nothing
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		cancel()
	}()
	if err := ensureDatabase(ctx, socket, "u", "d"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestParseError(t *testing.T) {
	t.Parallel()
	if e := parseError(nil); e.code != "?" {
		t.Errorf("got %+v", e)
	}
	if err := untilReady(bufio.NewReader(strings.NewReader(""))); err == nil {
		t.Error("no error at the end of input")
	}
}
