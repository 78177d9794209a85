package httpserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/httpserver"
)

// dial opens a connection on which nothing waits for longer than a body may take.
func dial(t *testing.T, server *running) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(hang / 2)) // less than the body's time: who waits for that fails
	return conn, bufio.NewReader(conn)
}

// Who is refused before the body is read has the answer at once, and then no
// connection: the body may never come.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	server := start(t, httpserver.Options{Grace: hang, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/part" {
			_, _ = io.ReadFull(r.Body, make([]byte, 5))
		}
		if r.URL.Path != "/silent" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, "no")
		}
	})})
	for name, request := range map[string]string{
		"nothing comes":            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
		"a large one":              "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n{",
		"half comes":               "POST /part HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n0123456789",
		"chunks":                   "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n",
		"100-continue":             "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
		"a handler that is silent": "POST /silent HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, from := dial(t, server)
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(response.Body); err != nil || response.StatusCode/100 == 1 || !response.Close {
				t.Errorf("status %d, close %v, %v", response.StatusCode, response.Close, err)
			}
			if _, err := from.ReadByte(); err == nil || isTimeout(err) {
				t.Errorf("after the answer: %v", err)
			}
		})
	}
}

// A client whose machine is busy may pause in the midst of its body, for longer than
// net/http waits before it closes (half a second), and still has its answer.
func TestAClientThatPausesHasItsAnswer(t *testing.T) {
	t.Parallel()
	server := start(t, httpserver.Options{Grace: hang, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})})
	conn, from := dial(t, server)
	half := strings.Repeat("x", 1<<20)
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 2*len(half), half); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1500 * time.Millisecond)
	if _, err := io.WriteString(conn, half); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(from, nil)
	if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("%v, %v", response, err)
	}
	_ = response.Body.Close()
}

// Those who announce a large body, are refused and then send nothing may be many.
//
//nolint:paralleltest // what others allocate counts too
func TestARefusedBodyThatDoesNotComeTakesNoMemory(t *testing.T) {
	server := start(t, httpserver.Options{Grace: hang, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})})
	const many = 64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var group sync.WaitGroup
	for range many {
		conn, _ := dial(t, server)
		group.Go(func() {
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n{")
			if _, err := conn.Read(make([]byte, 512)); err != nil {
				t.Error(err)
			}
			for err := error(nil); err == nil; { // until it is closed
				_, err = conn.Read(make([]byte, 512))
			}
		})
	}
	group.Wait()
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / many; each > 40<<10 {
		t.Errorf("each took %d KiB", each>>10)
	}
}

// A body that is there already costs the client neither its answer nor its connection.
func TestARefusalKeepsTheConnectionOfAWholeRequest(t *testing.T) {
	t.Parallel()
	server := start(t, httpserver.Options{Grace: hang, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})})
	conn, from := dial(t, server)
	for range 2 {
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(from, nil)
		if err != nil || response.StatusCode != http.StatusUnauthorized || response.Close {
			t.Fatalf("%v, %v", response, err)
		}
		_ = response.Body.Close()
	}
}

// So does a large one, where it has arrived in full. The machine may be too slow for
// that now and then.
func TestARefusalKeepsTheConnectionOfALargeRequest(t *testing.T) {
	t.Parallel()
	written := make(chan struct{})
	server := start(t, httpserver.Options{Grace: hang, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-written
		w.WriteHeader(http.StatusUnauthorized)
	})})
	const size = 200 << 10
	for try := range 50 {
		conn, from := dial(t, server)
		go func() {
			_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
			written <- struct{}{}
		}()
		response, err := http.ReadResponse(from, nil)
		if err == nil && !response.Close {
			return
		}
		t.Logf("try %d: %v", try, err)
	}
	t.Error("the connection was never kept")
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // as a connection returns it
	return ok && timeout.Timeout()
}

// Connections that say nothing, or nothing more, do not keep others out.
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	const most = 8
	server := start(t, httpserver.Options{
		Grace: hang, Conns: httpserver.Connections{Most: most},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }),
	})
	for i := range 3 * most {
		conn, from := dial(t, server)
		if i%2 == 0 {
			continue // it says nothing at all
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
	}
}

// What cannot be read as HTTP is the client's fault, and said to be.
func TestMalformedRequestsAreNoFaultOfOurs(t *testing.T) {
	t.Parallel()
	server := start(t, httpserver.Options{Grace: hang, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/501" { // not net/http's own
			w.WriteHeader(http.StatusNotImplemented)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	})})
	const good = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, request := range map[string]string{
		"unknown coding":           "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
		"two codings":              "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"coding twice":             "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		"unknown coding, later":    good + "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n",
		"HTTP/2.0":                 "GET / HTTP/2.0\r\nHost: x\r\n\r\n",
		"HTTP/3.0":                 "GET / HTTP/3.0\r\nHost: x\r\n\r\n",
		"HTTP/0.9":                 "GET / HTTP/0.9\r\nHost: x\r\n\r\n",
		"HTTP/9.9":                 "GET / HTTP/9.9\r\nHost: x\r\n\r\n",
		"an HTTP/2 preface":        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"no version":               "GET /\r\n\r\n",
		"no host":                  "GET / HTTP/1.1\r\n\r\n",
		"two hosts":                "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"a negative length":        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"two lengths":              "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"an unknown expectation":   "POST / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n",
		"a header without a colon": "GET / HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n",
		"a NUL in a header":        "GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
		"an odd escape":            "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"a bad chunk":              "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
		"no such method":           "G@T / HTTP/1.1\r\nHost: x\r\n\r\n",
		"TLS":                      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"long headers":             "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 80<<10) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, from := dial(t, server)
			go func() { _, _ = io.WriteString(conn, request) }() // the server may hang up before it has read all
			for answers := 0; ; answers++ {
				response, err := http.ReadResponse(from, nil)
				if err != nil {
					if answers == 0 && isTimeout(err) {
						t.Error("no answer and no end")
					}
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				if response.StatusCode >= 500 {
					t.Errorf("status %d", response.StatusCode)
				}
				if response.Close {
					return
				}
				if answers > 1 || !strings.HasPrefix(request, good) {
					return
				}
			}
		})
	}
	conn, from := dial(t, server)
	_, _ = fmt.Fprint(conn, "GET /501 HTTP/1.1\r\nHost: x\r\n\r\n")
	if response, err := http.ReadResponse(from, nil); err != nil || response.StatusCode != http.StatusNotImplemented {
		t.Errorf("a handler's own 501: %v, %v", response, err)
	}
}
