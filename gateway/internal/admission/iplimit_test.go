package admission_test

import (
	"encoding/binary"
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
