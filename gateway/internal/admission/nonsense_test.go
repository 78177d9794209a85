package admission_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
)

// Whatever the server says, the process lives, hints are waited for, and requests are
// decided: by this gateway alone.
func TestRedisThatAnswersNonsense(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"numbers in a list":  "*3\r\n:1\r\n:2\r\n:3\r\n",
		"an empty list":      "*0\r\n",
		"a short message":    "*2\r\n$7\r\nmessage\r\n:1\r\n",
		"a short subscribe":  "*1\r\n$9\r\nsubscribe\r\n",
		"a count of words":   "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n$1\r\nb\r\n",
		"yes":                "+OK\r\n",
		"another protocol":   "HTTP/1.1 400 Bad Request\r\n\r\n",
		"a length of memory": "*4000000000000\r\n",
		"no end of nesting":  strings.Repeat("*1\r\n", 1000),
		"zero bytes":         strings.Repeat("\x00", 64),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var subscribed atomic.Int64
			url := fakeRedis(t, func(command []string) string {
				if command[0] == "subscribe" {
					subscribed.Add(1)
				}
				return text + text // once more unasked
			})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			r := connect(t, url)
			var hearing sync.WaitGroup
			hearing.Go(func() { r.Subscribe(ctx, newEar().subscriber()) })
			l := admission.NewLimiter(r, admission.LimiterOptions{})
			hearing.Go(func() { l.Run(ctx) })
			admitted := 0
			again := int64(4)
			if text == "+OK\r\n" {
				again = 1 // any word is a pong: the subscription stands
			}
			for subscribed.Load() < again {
				if l.Admit(t.Context(), admission.RequestOf("one", of(slowly, 10, 1))).Verdict == admission.Admitted {
					admitted++
				}
				r.Check(ctx)
			}
			if admitted > 10 {
				t.Errorf("%d admitted through a burst of 10", admitted)
			}
			stop()
			hearing.Wait()
		})
	}
}

// garbled is a way to a Redis on which answers can be made nonsense.
func garbled(t *testing.T, server string) (url string, on *atomic.Bool) {
	t.Helper()
	options, err := redis.ParseURL(server)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	on = &atomic.Bool{}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial(options.Network, options.Addr)
			if err != nil {
				_ = near.Close()
				continue
			}
			group.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
			group.Go(func() {
				defer near.Close()
				buffer := make([]byte, 64<<10)
				for {
					n, err := far.Read(buffer)
					if err != nil {
						return
					}
					said := buffer[:n]
					if on.Load() {
						said = []byte("*2\r\n:0\r\n+no\r\n")
					}
					if _, err := near.Write(said); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	return "redis://" + listener.Addr().String(), on
}

// I8, where Redis is lost and found again and again: a bucket that was empty there is
// empty here, so that no burst comes from it.
func TestNonsenseGivesNoBurst(t *testing.T) {
	t.Parallel()
	url, nonsense := garbled(t, storetest.Redis(t))
	r := patient(t, url)
	l := admission.NewLimiter(r, admission.LimiterOptions{Prefix: "test:" + uuid.NewString() + ":"})
	const burst = 10
	admitted, modes := 0, [2]int{}
	ask := func() (local bool) {
		d := l.Admit(t.Context(), admission.RequestOf("one", of(slowly, burst, 1)))
		if d.Verdict == admission.Admitted {
			admitted++
		}
		if d.Local {
			modes[1]++
		} else {
			modes[0]++
		}
		return d.Local
	}
	for range 5 {
		for end := time.Now().Add(hang); ask(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("Redis is never found again")
			}
		}
		for range burst {
			ask()
		}
		nonsense.Store(true)
		for end := time.Now().Add(hang); !ask(); {
			if time.Now().After(end) {
				t.Fatal("nonsense is taken for decisions")
			}
		}
		for range burst {
			ask()
		}
		nonsense.Store(false)
	}
	t.Logf("%d decided by Redis, %d locally", modes[0], modes[1])
	if admitted != burst {
		t.Errorf("%d admitted through a burst of %d", admitted, burst)
	}
	_ = r.Close() // the way ends with its connections
}

// fakeRedis is a server that answers each command with what answer makes of its words, which may be nonsense; HELLO alone
// it refuses, as old servers do.
func fakeRedis(t *testing.T, answer func(command []string) string) (url string) {
	t.Helper()
	fake, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	fake.SetPreHook(func(peer *server.Peer, command string, words ...string) bool {
		if command == "HELLO" {
			peer.WriteError("ERR unknown command")
		} else {
			peer.WriteRaw(answer(append([]string{strings.ToLower(command)}, words...)))
		}
		return true
	})
	return "redis://" + fake.Addr().String()
}
