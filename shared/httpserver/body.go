package httpserver

import (
	"io"
	"net/http"
	"time"
)

// boundBodies gives each body a deadline of its own. http.Server.ReadTimeout
// will not do: it goes on after the body has been read, fires in the background
// read that watches for the client's leaving, and so ends the context of a
// request that only waits for its answer.
func boundBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		connection := http.NewResponseController(w)
		if err := connection.SetReadDeadline(time.Now().Add(readBodyTimeout)); err == nil {
			r.Body = &boundBody{ReadCloser: r.Body, connection: connection}
		}
		next.ServeHTTP(w, r)
	})
}

// boundBody lifts the deadline once the body has been read to its end.
type boundBody struct {
	io.ReadCloser
	connection *http.ResponseController
}

func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { // a Reader returns it itself, never wrapped
		_ = b.connection.SetReadDeadline(time.Time{}) // a connection that is gone needs none
	}
	return n, err
}
