// Package syncwriter makes an io.Writer safe for concurrent use, for a log that several goroutines write to.
package syncwriter

import (
	"io"
	"sync"
)

// New returns a writer that passes one Write at a time to w.
func New(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *writer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
