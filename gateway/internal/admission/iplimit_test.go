package admission_test

import (
	"encoding/binary"
	"net/http"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestIPLimit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := admission.NewIPLimit(admission.IPLimitOptions{PerSecond: 2, Burst: 3})
	l.SetClock(func() time.Time { return now })
	take := func(address string) int {
		n := 0
		for {
			wait, ok := l.Allow(ip(address))
			if !ok {
				if wait <= 0 || wait > 500*time.Millisecond {
					t.Errorf("%s: wait %v at 2 a second", address, wait)
				}
				return n
			}
			if n++; n > 100 {
				t.Fatalf("%s has no limit", address)
			}
		}
	}
	for _, c := range []struct {
		address string
		want    int
	}{
		{"192.0.2.1", 3},
		{"192.0.2.2", 3},
		{"::ffff:192.0.2.1", 0}, // the first again
		{"2001:db8:0:1::1", 3},
		{"2001:db8:0:1:ffff::2", 0}, // the same /64
		{"2001:db8:0:2::1", 3},
		{"fe80::1%eth0", 3},
		{"fe80::2%eth1", 0},
	} {
		if got := take(c.address); got != c.want {
			t.Errorf("%s: %d allowed, want %d", c.address, got, c.want)
		}
	}
	wait, _ := l.Allow(ip("192.0.2.1"))
	now = now.Add(wait)
	if _, ok := l.Allow(ip("192.0.2.1")); !ok {
		t.Error("refused after its wait")
	}
	if _, ok := l.Allow(netip.Addr{}); !ok { // a Unix socket: one bucket for all
		t.Error("the zero address was refused at once")
	}
}

// A million addresses, IPv4 and IPv6, and the one that never rests.
func TestIPLimitMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const addresses = 10_000
	l := admission.NewIPLimit(admission.IPLimitOptions{PerSecond: 0.001, Burst: 5, Addresses: addresses})
	for range 5 {
		l.Allow(ip("192.0.2.1"))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range uint32(400_000) {
		var v4 [4]byte
		binary.BigEndian.PutUint32(v4[:], i+10<<24)
		address := netip.AddrFrom4(v4)
		if i%2 == 1 {
			v6 := [16]byte{0x20, 0x01}
			copy(v6[4:], v4[:])
			address = netip.AddrFrom16(v6)
		}
		l.Allow(address)
		if i%1000 == 0 {
			if _, ok := l.Allow(ip("192.0.2.1")); ok {
				t.Fatal("an address in use was forgotten")
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := l.Addresses(); got != addresses {
		t.Errorf("%d addresses are remembered", got)
	}
	// Other tests run beside this one: a wide bound, where all of these would be 100 MB.
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 60<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	runtime.KeepAlive(l)
}

func TestFailedKeys(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := admission.NewFailedKeys(admission.IPLimitOptions{PerSecond: 1, Burst: 3})
	f.SetClock(func() time.Time { return now })
	bad, good := ip("192.0.2.1"), ip("192.0.2.2")
	for i := range 10 {
		if _, refused := f.Refuse(good); refused {
			t.Fatalf("%d looks cost something", i)
		}
	}
	if f.Addresses() != 0 {
		t.Error("an address that never failed is remembered")
	}
	for i := range 3 {
		if _, refused := f.Refuse(bad); refused {
			t.Fatalf("refused after %d failures", i)
		}
		f.Failed(bad)
	}
	wait, refused := f.Refuse(bad)
	if !refused || wait <= 0 || wait > time.Second {
		t.Fatalf("after three failures: %v, wait %v", refused, wait)
	}
	if _, refused := f.Refuse(good); refused {
		t.Error("another address is refused for it")
	}
	now = now.Add(wait)
	if _, refused := f.Refuse(bad); refused {
		t.Error("refused after its wait")
	}
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	proxies, err := admission.ParseProxies([]string{"10.0.0.0/8", "2001:db8::/32", "192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	xff := func(values ...string) http.Header { return http.Header{"X-Forwarded-For": values} }
	forwarded := func(values ...string) http.Header { return http.Header{"Forwarded": values} }
	for _, c := range []struct {
		what    string
		proxies admission.Proxies
		peer    string
		header  http.Header
		want    string
	}{
		{"no header", proxies, "10.0.0.1:1234", nil, "10.0.0.1"},
		{"no proxy configured", nil, "10.0.0.1:1234", xff("198.51.100.1"), "10.0.0.1"},
		{"the peer is no proxy of ours", proxies, "198.51.100.9:1", xff("198.51.100.1"), "198.51.100.9"},
		{"one hop", proxies, "10.0.0.1:1234", xff("198.51.100.1"), "198.51.100.1"},
		{"what the client invented is left of it", proxies, "10.0.0.1:1", xff("127.0.0.1, 198.51.100.1"), "198.51.100.1"},
		{"two hops, one ours", proxies, "10.0.0.1:1", xff("203.0.113.5, 198.51.100.1, 10.9.9.9"), "198.51.100.1"},
		{"several lines are one list", proxies, "10.0.0.1:1", xff("203.0.113.5", "198.51.100.1,10.9.9.9"), "198.51.100.1"},
		{"all ours", proxies, "10.0.0.1:1", xff("10.1.1.1, 10.2.2.2"), "10.1.1.1"},
		{"rubbish ends the walk", proxies, "10.0.0.1:1", xff("198.51.100.1, unknown, 10.3.3.3"), "10.3.3.3"},
		{"empty", proxies, "10.0.0.1:1", xff(""), "10.0.0.1"},
		{"with ports", proxies, "10.0.0.1:1", xff("198.51.100.1:99"), "198.51.100.1"},
		{"IPv6", proxies, "[2001:db8::1]:1", xff("2a00::5"), "2a00::5"},
		{"IPv6 in brackets, with a port", proxies, "[2001:db8::1]:1", xff("[2a00::5]:8"), "2a00::5"},
		{"an IPv4 peer in IPv6", proxies, "[::ffff:10.0.0.1]:1", xff("::ffff:198.51.100.1"), "198.51.100.1"},
		{"a single trusted address", proxies, "192.0.2.7:1", xff("198.51.100.1"), "198.51.100.1"},
		{"its neighbour", proxies, "192.0.2.8:1", xff("198.51.100.1"), "192.0.2.8"},
		{"Forwarded", proxies, "10.0.0.1:1", forwarded(`for=198.51.100.1;proto=https;by=10.0.0.1`), "198.51.100.1"},
		{"Forwarded, quoted IPv6", proxies, "10.0.0.1:1", forwarded(`proto=https;For="[2a00::5]:4711"`), "2a00::5"},
		{"Forwarded, a comma in quotes", proxies, "10.0.0.1:1", forwarded(`for=203.0.113.5, for=198.51.100.1;host="a,b;for=1.1.1.1"`), "198.51.100.1"},
		{"Forwarded, hidden", proxies, "10.0.0.1:1", forwarded(`for=198.51.100.1, for=_hidden`), "10.0.0.1"},
		{"Forwarded, twice in one element", proxies, "10.0.0.1:1", forwarded(`for=198.51.100.1;for=198.51.100.2`), "10.0.0.1"},
		{"Forwarded without for", proxies, "10.0.0.1:1", forwarded(`proto=https`), "10.0.0.1"},
		{"Forwarded, quotes that do not end", proxies, "10.0.0.1:1", forwarded(`for="198.51.100.1`), "10.0.0.1"},
		{"both agree", proxies, "10.0.0.1:1", http.Header{"X-Forwarded-For": {"198.51.100.1"}, "Forwarded": {"for=198.51.100.1"}}, "198.51.100.1"},
		{"both, one forged", proxies, "10.0.0.1:1", http.Header{"X-Forwarded-For": {"198.51.100.1"}, "Forwarded": {"for=1.1.1.1"}}, "10.0.0.1"},
		{"a zone", proxies, "[fe80::1%eth0]:1", nil, "fe80::1"},
	} {
		if got := c.proxies.ClientAddress(c.peer, c.header); got != ip(c.want) {
			t.Errorf("%s: %v, want %s", c.what, got, c.want)
		}
	}
	if got := proxies.ClientAddress("@", xff("198.51.100.1")); got.IsValid() {
		t.Errorf("a Unix socket is %v", got)
	}
	if _, err := admission.ParseProxies([]string{"10.0.0.0/8", "ten"}); err == nil {
		t.Error("ten is a network")
	}
}

// Whatever the header holds, the walk ends, and the answer is the peer's or in it.
func FuzzClientAddress(f *testing.F) {
	for _, seed := range []string{"", "a", `for="\`, "[", "[]", `for="[::1]:1", for=x`, ",,,", `"`, "1.2.3.4:", "::%"} {
		f.Add(seed, seed)
	}
	proxies := admission.Proxies{netip.MustParsePrefix("0.0.0.0/0")}
	f.Fuzz(func(t *testing.T, forwardedFor, forwarded string) {
		header := http.Header{"X-Forwarded-For": {forwardedFor}, "Forwarded": {forwarded}}
		if got := proxies.ClientAddress("10.0.0.1:1", header); !got.IsValid() {
			t.Errorf("no address from %q, %q", forwardedFor, forwarded)
		}
	})
}
