package redisclient_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/redisclient"
)

// hang is a guard against a test that would never end.
const hang = time.Minute

// server is a Redis that says what a test makes it say. Client's packages test against a real one.
type server struct {
	t        *testing.T
	listener net.Listener
	// reply is what is written for a command; what is empty ends the connection.
	reply func(command []string) string

	mu   sync.Mutex
	seen []string
}

// serve starts a server, and gives a client of it.
func serve(t *testing.T, reply func(command []string) string) (*server, *redisclient.Client) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, listener: listener, reply: reply}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { s.answer(conn) })
		}
	})
	client, err := redisclient.Open("redis://"+listener.Addr().String(), redisclient.Options{ReadTimeout: hang, WriteTimeout: hang, DialTimeout: hang, DialRetries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		_ = listener.Close()
		connections.Wait()
	})
	return s, client
}

// answer reads commands until the client leaves.
func (s *server) answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for in := bufio.NewReader(conn); ; {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		reply := "-ERR unknown command\r\n" // an old server's answer to HELLO
		if command[0] != "hello" {
			s.mu.Lock()
			s.seen = append(s.seen, strings.Join(command, " "))
			s.mu.Unlock()
			reply = s.reply(command)
		}
		if reply == "" {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimRight(line[1:], "\r\n"))
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := number()
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:size])
	}
	command[0] = strings.ToLower(command[0])
	return command, nil
}

func (s *server) commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func bulk(parts ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(parts))
	for _, part := range parts {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(part), part)
	}
	return b.String()
}

// A script that the server does not know is sent whole, for those calls alone that need it. Each call has its own reply
// or error, and none is made twice.
func TestScriptsAreSentOnce(t *testing.T) {
	t.Parallel()
	script := redisclient.NewScript("return 1")
	known := false
	s, client := serve(t, func(command []string) string {
		switch key := command[3]; {
		case key == "broken":
			return "-WRONGTYPE no\r\n"
		case command[0] == "evalsha" && !known:
			return "-NOSCRIPT No matching script\r\n"
		case key == "one":
			return ":7\r\n"
		default:
			known = true // from the last call on
			return "*3\r\n:1\r\n$-1\r\n$1\r\nx\r\n"
		}
	})
	calls := func() []*redisclient.Call {
		return []*redisclient.Call{{Keys: []string{"one"}, Args: []any{"a"}}, {Keys: []string{"broken"}}, {Keys: []string{"several"}}}
	}
	first := calls()
	client.Run(t.Context(), script, first)
	second := calls()
	client.Run(t.Context(), script, second)
	for _, got := range [][]*redisclient.Call{first, second} {
		if got[0].Err != nil || !slices.Equal(got[0].Reply, []any{int64(7)}) ||
			got[1].Err == nil || !strings.Contains(got[1].Err.Error(), "WRONGTYPE") ||
			got[2].Err != nil || !slices.Equal(got[2].Reply, []any{int64(1), nil, "x"}) {
			t.Errorf("%+v %+v %+v", *got[0], *got[1], *got[2])
		}
	}
	sha := "evalsha " + script.SHA()
	want := []string{
		sha + " 1 one a", sha + " 1 broken", sha + " 1 several", "eval return 1 1 one a", "eval return 1 1 several",
		sha + " 1 one a", sha + " 1 broken", sha + " 1 several",
	}
	if got := s.commands(); !slices.Equal(got, want) {
		t.Errorf("sent %q\nwant %q", got, want)
	}
}

// What the server says may be nonsense, and it may leave: that is an error, never a panic, and the call is not repeated.
func TestABadServerIsAnError(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"it leaves": "", "HTTP": "HTTP/1.1 400 Bad Request\r\n\r\n", "no length": "$x\r\n", "another type": "*1\r\n*1\r\n+x\r\n", "an error": "-ERR no\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := serve(t, func([]string) string { return reply })
			_, timeErr := client.Time(t.Context())
			_, beatErr := client.Beat(t.Context(), "key", "member", time.Second)
			_, setErr := client.SetNew(t.Context(), "key", "value", time.Second)
			_, publishErr := client.Publish(t.Context(), "channel", "x")
			for i, err := range []error{timeErr, beatErr, setErr, publishErr} {
				if err == nil {
					t.Errorf("call %d has no error", i)
				}
			}
			if got := s.commands(); len(got) != 4 {
				t.Errorf("sent %q", got)
			}
		})
	}
}

// A subscription hears what is published, pings a server that is silent, and ends when the context does.
func TestListen(t *testing.T) {
	t.Parallel()
	pinged := make(chan struct{}, 100)
	_, client := serve(t, func(command []string) string {
		switch command[0] {
		case "subscribe":
			return "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n" + bulk("message", "b", "hello")
		default:
			pinged <- struct{}{}
			return bulk("pong", "") + bulk("message", "a", "after a ping")
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun := 0
	var heard []string
	ended := make(chan error, 1)
	go func() {
		ended <- client.Listen(ctx, redisclient.Subscription{
			Channels: []string{"a", "b"}, Silence: time.Second,
			Begun:   func() { begun++ },
			Message: func(channel, payload string) { heard = append(heard, channel+": "+payload) },
		})
	}()
	for range 2 {
		select {
		case <-pinged:
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-time.After(hang):
			t.Fatal("no ping")
		}
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("it ended without an error")
	}
	if want := []string{"b: hello", "a: after a ping"}; begun != 2 || len(heard) < 2 || !slices.Equal(heard[:2], want) {
		t.Errorf("%d channels, heard %q, want %q", begun, heard, want)
	}
}

// A server that answers no ping is given up, by the timeout's error.
func TestListenGivesUpASilentServer(t *testing.T) {
	t.Parallel()
	s, client := serve(t, func(command []string) string {
		if command[0] == "subscribe" {
			return "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
		}
		return "+" // half an answer
	})
	err := client.Listen(t.Context(), redisclient.Subscription{Channels: []string{"a"}, Silence: 100 * time.Millisecond, Message: func(_, payload string) { t.Errorf("heard %q", payload) }})
	if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() {
		t.Errorf("%v", err)
	}
	if got := s.commands(); !slices.Equal(got, []string{"subscribe a", "ping"}) {
		t.Errorf("sent %q", got)
	}
}

// One server is one node; an address with several is a cluster.
func TestOneNode(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{"redis://127.0.0.1:1": true, "redis://127.0.0.1:1?cluster=true": false} {
		client, err := redisclient.Open(url, redisclient.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if client.OneNode() != want {
			t.Errorf("%s: %v", url, !want)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := redisclient.Open("http://127.0.0.1", redisclient.Options{}); err == nil {
		t.Error("any URL will do")
	}
}
