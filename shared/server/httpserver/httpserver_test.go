package httpserver_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/shared/server/httpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hang is a guard against a test that would never end, not a bound on speed.
const hang = 20 * time.Second

type running struct {
	url   string
	stop  context.CancelFunc
	ended chan struct{}
	err   error // Run's; read it after ended
}

func start(t *testing.T, o httpserver.Options) *running {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Listener, o.Logger = listener, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{url: "http://" + listener.Addr().String(), stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = httpserver.Run(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		_ = r.wait(t)
	})
	return r
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(hang):
		t.Fatal("Run did not return")
		return nil
	}
}

// get fetches on a connection of its own, so that none stays idle behind.
func get(t *testing.T, url string) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestDrainLetsRequestsEnd(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	var drained atomic.Bool
	server := start(t, httpserver.Options{
		Grace:   hang,
		OnDrain: func() { drained.Store(true); close(release) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-release
			if r.Context().Err() != nil {
				t.Error("the request's context ended with Run's")
			}
			_, _ = io.WriteString(w, "done")
		}),
	})
	answer := make(chan string, 1)
	go func() {
		body, err := get(t, server.url)
		if err != nil {
			t.Error(err)
		}
		answer <- body
	}()
	<-entered
	server.stop()
	if err := server.wait(t); err != nil {
		t.Fatalf("a clean drain gave %v", err)
	}
	if got := <-answer; got != "done" || !drained.Load() {
		t.Fatalf("answer %q, drained %v", got, drained.Load())
	}
	if _, err := get(t, server.url); err == nil {
		t.Fatal("a request was served after the drain")
	}
}

// A connection that is too old is closed by the server's word, after an answer; one
// that is not, and any where nothing is said of age, is kept.
func TestOldConnectionsEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		age  time.Duration
		kept bool
	}{"old": {age: time.Nanosecond}, "young": {age: time.Hour, kept: true}, "any": {kept: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, httpserver.Options{
				MaxConnAge: test.age,
				Handler:    http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }),
			})
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			ask := func() string {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				response, err := transport.RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				from, err := io.ReadAll(response.Body)
				if err != nil || response.Close == test.kept {
					t.Fatalf("answer %q, %v; it says close: %v", from, err, response.Close)
				}
				return string(from)
			}
			first, second := ask(), ask()
			if kept := first == second; kept != test.kept {
				t.Errorf("the second request came on the same connection: %v, want %v", kept, test.kept)
			}
		})
	}
}

// Within the notice requests are taken, each as the last of its connection; then
// comes OnClose, then the listener closes.
func TestNotice(t *testing.T) {
	t.Parallel()
	var steps []string
	drains := make(chan struct{})
	server := start(t, httpserver.Options{
		Notice: 500 * time.Millisecond, Grace: hang,
		OnDrain: func() { steps = append(steps, "drain"); close(drains) },
		OnClose: func() { steps = append(steps, "close") },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }),
	})
	kept := &http.Transport{}
	defer kept.CloseIdleConnections()
	ask := func() (closes bool) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := kept.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.Close
	}
	if ask() {
		t.Error("a connection was closed before the drain")
	}
	server.stop()
	<-drains
	for range 2 {
		if !ask() {
			t.Error("within the notice a connection was kept")
		}
	}
	if err := server.wait(t); err != nil {
		t.Fatal(err)
	}
	if len(steps) != 2 || steps[0] != "drain" || steps[1] != "close" {
		t.Errorf("steps %v", steps)
	}
}

func TestGraceEnds(t *testing.T) {
	t.Parallel()
	entered, ended := make(chan struct{}), make(chan struct{})
	server := start(t, httpserver.Options{
		Grace: 20 * time.Millisecond,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
			close(ended)
		}),
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = get(t, server.url) // how it ends is the server's choice
	}()
	<-entered
	server.stop()
	if err := server.wait(t); err == nil || !strings.Contains(err.Error(), "in flight") {
		t.Fatalf("Run gave %v, want an error that says what was left", err)
	}
	<-ended
	<-done
}

func TestListenerThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	if err := httpserver.Run(t.Context(), httpserver.Options{Listener: listener, Handler: http.NotFoundHandler()}); err == nil {
		t.Fatal("Run on a closed listener gave no error")
	}
}

func TestHugeHeadersAreRefused(t *testing.T) {
	t.Parallel()
	server := start(t, httpserver.Options{Grace: hang, Handler: http.NotFoundHandler()})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Big", strings.Repeat("a", 80<<10))
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("status %d, want 431", response.StatusCode)
	}
}

// A body that was read to its end leaves a connection that can wait, notice
// that its client has gone, and serve the next request.
func TestContextFollowsTheClientAfterABody(t *testing.T) {
	t.Parallel()
	entered, ended := make(chan struct{}, 1), make(chan struct{})
	server := start(t, httpserver.Options{
		Grace: hang,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/wait" {
				entered <- struct{}{}
				<-r.Context().Done()
				close(ended)
			}
		}),
	})
	connection, err := net.Dial("tcp", strings.TrimPrefix(server.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, _ = io.WriteString(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("first request: %v %v", response, err)
	}
	_ = response.Body.Close()
	_, _ = io.WriteString(connection, "POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	<-entered
	_ = connection.Close()
	select {
	case <-ended:
	case <-time.After(hang):
		t.Fatal("the handler never learned that its client had gone")
	}
}

// A server is stopped while callers come and come, none of whom looks at readiness. Each
// request that was sent is answered; only who finds nobody there any more, or is cut off
// by the kernel as the listener closes with him in its queue, has no answer. Shutdown
// alone drops what it finds half read.
func TestWhoHasJustComeIsAnswered(t *testing.T) {
	t.Parallel()
	var answered, dropped, reset atomic.Int64
	for range 20 {
		busy := make(chan struct{}, 1)
		server := start(t, httpserver.Options{Grace: hang, Notice: 20 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case busy <- struct{}{}:
			default:
			}
			_, _ = io.WriteString(w, "done")
		})})
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for {
					switch err := comeAndGo(t, strings.TrimPrefix(server.url, "http://")); {
					case err == nil:
						answered.Add(1)
					case errors.Is(err, errNobody):
						return
					case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
						reset.Add(1)
					default:
						dropped.Add(1)
						t.Logf("no answer: %v", err)
					}
				}
			})
		}
		<-busy
		server.stop()
		if err := server.wait(t); err != nil {
			t.Error(err)
		}
		group.Wait()
	}
	t.Logf("%d answered, %d reset, %d dropped", answered.Load(), reset.Load(), dropped.Load())
	if dropped.Load() > 0 {
		t.Error("requests were taken and not answered")
	}
}

var errNobody = errors.New("nobody listens")

// comeAndGo sends one request on a connection of its own.
func comeAndGo(t *testing.T, address string) error {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return errNobody
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Who has connected and says nothing does not hold up the end for long.
func TestASilentConnectionDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	server := start(t, httpserver.Options{Grace: 100 * time.Millisecond, Handler: http.NotFoundHandler()})
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := get(t, server.url); err != nil { // it was accepted before this
		t.Fatal(err)
	}
	server.stop()
	_ = server.wait(t)
}
