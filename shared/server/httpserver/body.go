package httpserver

import (
	"io"
	"net/http"
	"time"
)

// After an answer that did not wait for the whole body, the rest is read and discarded: a
// connection that is closed with unread bytes is reset, and the client may lose the
// answer. lingerTimeout is how long the client may send nothing (nginx' lingering_timeout
// is the same), lingerMost how long this lasts at most.
const (
	lingerTimeout = 5 * time.Second
	lingerMost    = 15 * time.Second
	lingerBuffer  = 32 << 10 // of a client that does send
)

// arrivedTimeout is what the rest of a body gets that has been sent already, so that a
// refusal need not cost the client its connection.
const arrivedTimeout = 2 * time.Millisecond

// arrivedBytes is how much of such a rest is read: as much as net/http would read, and
// one more to see the end.
const arrivedBytes = 256<<10 + 1

// boundBodies gives each body a deadline of its own. http.Server.ReadTimeout cannot
// be used: it continues after the body has been read, fires in the background read
// that detects the client's disconnect, and so ends the context of a request that
// only waits for its answer.
//
// An answer does not wait for a body that the handler did not read to its end: it is the
// connection's last one. net/http alone would first wait for up to 256 KiB of it, as long as the
// deadline allows.
func boundBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		connection := http.NewResponseController(w)
		if err := connection.SetReadDeadline(time.Now().Add(readBodyTimeout)); err != nil {
			next.ServeHTTP(w, r) // the connection has gone
			return
		}
		x := &exchange{ReadCloser: r.Body, ResponseWriter: w, connection: connection, expects: r.Header.Get("Expect") != ""}
		r.Body = x
		next.ServeHTTP(x, r)
		x.begin()
		switch {
		case x.ended:
		case x.expects: // it sends nothing after this answer
			_ = connection.SetReadDeadline(time.Now().Add(lingerTimeout))
		default:
			_ = connection.Flush() // a client that has gone is noticed below
			x.linger()
		}
	})
}

// linger reads what the client still sends after the answer. Many clients may send
// nothing: each takes little memory.
func (x *exchange) linger() {
	buffer := make([]byte, 512)
	for begun := time.Now(); !x.ended && time.Since(begun) < lingerMost; {
		if err := x.connection.SetReadDeadline(time.Now().Add(lingerTimeout)); err != nil {
			return
		}
		n, err := x.Read(buffer)
		if err != nil {
			return
		}
		if n == len(buffer) && n < lingerBuffer {
			buffer = make([]byte, lingerBuffer)
		}
	}
}

// exchange is a request's body, and the answer to it.
type exchange struct {
	io.ReadCloser
	http.ResponseWriter
	connection *http.ResponseController
	// expects says that the client sends the body only once it is read.
	expects bool
	// ended says that the body has been read to its end, begun that the answer has begun.
	ended, begun bool
}

// Read lifts the deadline once the body has been read to its end.
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.ReadCloser.Read(p)
	if err == io.EOF { // a Reader returns it itself, never wrapped
		x.ended = true
		_ = x.connection.SetReadDeadline(time.Time{}) // a connection that is gone needs none
	}
	return n, err
}

// begin decides, before the answer's headers are written, whether the connection can
// be used again.
func (x *exchange) begin() {
	if x.begun {
		return
	}
	x.begun = true
	if !x.ended && !x.expects && x.connection.SetReadDeadline(time.Now().Add(arrivedTimeout)) == nil {
		_, _ = io.CopyN(io.Discard, x, arrivedBytes) // Read says whether that was all
	}
	if !x.ended {
		x.Header().Set("Connection", "close")
	}
}

func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusOK {
		x.begin()
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(p []byte) (int, error) {
	x.begin()
	return x.ResponseWriter.Write(p)
}

// Flush is an http.Flusher's.
func (x *exchange) Flush() {
	x.begin()
	_ = x.connection.Flush() // a client that has gone is noticed elsewhere
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }
