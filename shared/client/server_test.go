package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/internal/pipenet"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// seen is one request as the server got it.
type seen struct {
	Method, Path, Query, Body string
	Header                    http.Header
}

// server is an HTTP server on a network of pipes, so that it runs inside a
// synctest bubble, where time passes only when everybody waits.
type server struct {
	client *client.Client

	mu       sync.Mutex
	requests []seen
	dials    int
	// failDials makes that many dials fail first.
	failDials int
}

// serve answers each request, counted from 0, with handle.
func serve(t *testing.T, handle func(n int, w http.ResponseWriter, r *http.Request), change ...func(*client.Options)) *server {
	t.Helper()
	listener := pipenet.New()
	s := &server{}
	web := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		n := len(s.requests)
		s.requests = append(s.requests, seen{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Header.Clone()})
		s.mu.Unlock()
		handle(n, w, r)
	})}}
	web.Start()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		s.mu.Lock()
		s.dials++
		fail := s.dials <= s.failDials
		s.mu.Unlock()
		if fail {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		}
		return listener.Dial(ctx, network, address)
	}}
	options := client.Options{URL: "http://forgequeue.test", APIKey: "fq_test_key", HTTPClient: &http.Client{Transport: transport}}
	for _, one := range change {
		one(&options)
	}
	c, err := client.New(options)
	if err != nil {
		t.Fatal(err)
	}
	s.client = c
	t.Cleanup(func() {
		c.CloseIdleConnections()
		web.Close()
	})
	return s
}

func (s *server) all() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.requests...)
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

func refuse(w http.ResponseWriter, code problem.Code) {
	problem.New(code, "as the test wants it").Write(w)
}

// breakOff closes the connection without an answer.
func breakOff(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
