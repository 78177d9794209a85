package cellclient

import (
	"net"
	"net/http/httptrace"
	"testing"
)

// Once core's answer has begun, the connection is net/http's to give to another
// call: it is not hung up any more. Before that it is, and takes no more writes.
func TestHangUpEndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, answered := range []bool{true, false} {
		connection, err := dial(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		var call parkedCall
		if call.hangUp() {
			t.Error("hung up without a connection")
		}
		call.got(httptrace.GotConnInfo{Conn: connection})
		if answered {
			call.answers()
		}
		if !call.hangUp() {
			t.Error("cut though it could be hung up, or was answered")
		}
		if n, err := connection.Write([]byte("x")); (err == nil) != answered || (n == 0) == answered {
			t.Errorf("answered %v: wrote %d, %v", answered, n, err)
		}
		_ = connection.Close()
		_ = connection.Close() // twice is once
	}
}
