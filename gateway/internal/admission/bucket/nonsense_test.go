package bucket_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
)

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
	r := dial(t, url, hang)
	l := bucket.New(r, bucket.Options{Budget: hang, Prefix: "test:" + uuid.NewString() + ":"})
	const burst = 10
	admitted, modes := 0, [2]int{}
	ask := func() (local bool) {
		d := l.Admit(t.Context(), bucket.RequestOf("one", of(slowly, burst, 1)))
		if d.Verdict == bucket.Admitted {
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
