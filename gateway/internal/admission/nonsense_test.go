package admission_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
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
			request := bucket.Request{Buckets: []bucket.Bucket{{Policy: "one", Quota: bucket.NewQuota(slowly, 10), Cost: 1, Key: "{one}:0"}}}
			again := int64(4)
			if text == "+OK\r\n" {
				again = 1 // any word is a pong: the subscription stands
			}
			for subscribed.Load() < again {
				if l.Admit(t.Context(), request).Verdict == bucket.Admitted {
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
