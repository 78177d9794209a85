package httpserver

import (
	"bytes"
	"io"
	"net"
)

// net/http itself answers a request that it cannot read. If that is a 5xx, for an
// unknown transfer coding or version, the client gets 400 instead: no server of this
// API accepts the request, and a 5xx would make the client retry and operators look
// for a fault of ours.
const (
	unknownCoding  = "HTTP/1.1 501 "
	unknownVersion = "HTTP/1.1 505 "
	badRequest     = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
)

// Write sends what the server writes. Outside of a request that is net/http's own
// answer, in one piece.
func (conn *connection) Write(p []byte) (int, error) {
	if conn.serving.Load() {
		return conn.Conn.Write(p)
	}
	if bytes.HasPrefix(p, []byte(unknownCoding)) || bytes.HasPrefix(p, []byte(unknownVersion)) {
		_, err := io.WriteString(conn.Conn, badRequest)
		return len(p), err
	}
	return conn.Conn.Write(p)
}

// CloseWrite has the client see the end of an answer before the connection is
// closed; net/http looks for it.
func (conn *connection) CloseWrite() error {
	if half, ok := conn.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}
