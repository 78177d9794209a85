package request_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// One header decides, and what it says is the client's address, the strict reading, or
// nothing: never the proxy's own address.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	networks := []string{"10.0.0.0/8", "2001:db8::/32", "192.0.2.7"}
	proxies, err := request.ParseProxies("X-Forwarded-For", networks)
	if err != nil {
		t.Fatal(err)
	}
	modern, err := request.ParseProxies("forwarded", networks)
	if err != nil {
		t.Fatal(err)
	}
	const nobody = "nobody in particular"
	xff := func(values ...string) http.Header { return http.Header{"X-Forwarded-For": values} }
	forwarded := func(values ...string) http.Header { return http.Header{"Forwarded": values} }
	both := http.Header{"X-Forwarded-For": {"198.51.100.1"}, "Forwarded": {"for=1.1.1.1"}}
	for _, c := range []struct {
		what    string
		proxies request.Proxies
		peer    string
		header  http.Header
		want    string
	}{
		{"no header", proxies, "10.0.0.1:1234", nil, nobody},
		{"no proxy configured", request.Proxies{}, "10.0.0.1:1234", xff("198.51.100.1"), "10.0.0.1"},
		{"the peer is no proxy of ours", proxies, "198.51.100.9:1", xff("198.51.100.1"), "198.51.100.9"},
		{"one hop", proxies, "10.0.0.1:1234", xff("198.51.100.1"), "198.51.100.1"},
		{"what the client invented is left of it", proxies, "10.0.0.1:1", xff("127.0.0.1, 198.51.100.1"), "198.51.100.1"},
		{"rubbish of the client is left of it", proxies, "10.0.0.1:1", xff("x", "", "198.51.100.1"), "198.51.100.1"},
		{"two hops, one ours", proxies, "10.0.0.1:1", xff("203.0.113.5, 198.51.100.1, 10.9.9.9"), "198.51.100.1"},
		{"several lines are one list", proxies, "10.0.0.1:1", xff("203.0.113.5", "198.51.100.1,10.9.9.9"), "198.51.100.1"},
		{"all ours", proxies, "10.0.0.1:1", xff("10.1.1.1, 10.2.2.2"), "10.1.1.1"},
		{"rubbish from a proxy of ours", proxies, "10.0.0.1:1", xff("198.51.100.1, unknown, 10.3.3.3"), nobody},
		{"empty", proxies, "10.0.0.1:1", xff(""), nobody},
		{"with ports", proxies, "10.0.0.1:1", xff("198.51.100.1:99"), "198.51.100.1"},
		{"IPv6", proxies, "[2001:db8::1]:1", xff("2a00::5"), "2a00::5"},
		{"IPv6 in brackets, with a port", proxies, "[2001:db8::1]:1", xff("[2a00::5]:8"), "2a00::5"},
		{"an IPv4 peer in IPv6", proxies, "[::ffff:10.0.0.1]:1", xff("::ffff:198.51.100.1"), "198.51.100.1"},
		{"a single trusted address", proxies, "192.0.2.7:1", xff("198.51.100.1"), "198.51.100.1"},
		{"its neighbour", proxies, "192.0.2.8:1", xff("198.51.100.1"), "192.0.2.8"},
		{"Forwarded", modern, "10.0.0.1:1", forwarded(`for=198.51.100.1;proto=https;by=10.0.0.1`), "198.51.100.1"},
		{"Forwarded, quoted IPv6", modern, "10.0.0.1:1", forwarded(`proto=https;For="[2a00::5]:4711"`), "2a00::5"},
		{"Forwarded, a comma in quotes", modern, "10.0.0.1:1", forwarded(`for=203.0.113.5, for=198.51.100.1;host="a,b;for=1.1.1.1"`), "198.51.100.1"},
		{"Forwarded, hidden", modern, "10.0.0.1:1", forwarded(`for=198.51.100.1, for=_hidden`), nobody},
		{"Forwarded, twice in one element", modern, "10.0.0.1:1", forwarded(`for=198.51.100.1;for=198.51.100.2`), nobody},
		{"Forwarded without for", modern, "10.0.0.1:1", forwarded(`proto=https`), nobody},
		{"Forwarded, quotes that do not end", modern, "10.0.0.1:1", forwarded(`for="198.51.100.1`), nobody},
		{"a Forwarded of the client's own", proxies, "10.0.0.1:1", both, "198.51.100.1"},
		{"an X-Forwarded-For of the client's own", modern, "10.0.0.1:1", both, "1.1.1.1"},
		{"only the header that does not count", proxies, "10.0.0.1:1", forwarded("for=1.1.1.1"), nobody},
		{"a zone", proxies, "[fe80::1%eth0]:1", nil, "fe80::1"},
	} {
		got, attributed := c.proxies.ClientAddress(c.peer, c.header)
		if c.want == nobody && (got.IsValid() || attributed) || c.want != nobody && (got != ip(c.want) || !attributed) {
			t.Errorf("%s: %v, %v, want %s", c.what, got, attributed, c.want)
		}
	}
	if got, attributed := proxies.ClientAddress("@", xff("198.51.100.1")); got.IsValid() || !attributed {
		t.Errorf("a Unix socket is %v, %v", got, attributed)
	}
	if _, err := request.ParseProxies("X-Forwarded-For", []string{"10.0.0.0/8", "ten"}); err == nil {
		t.Error("ten is a network")
	}
	if request.ValidProxyHeader("X-Real-IP") || !request.ValidProxyHeader("x-forwarded-for") {
		t.Error("the wrong headers are taken")
	}
}

// Whatever the header holds, the walk ends, and does not end at the proxy.
func FuzzClientAddress(f *testing.F) {
	for _, seed := range []string{"", "a", `for="\`, "[", "[]", `for="[::1]:1", for=x`, ",,,", `"`, "1.2.3.4:", "::%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, said string) {
		for _, name := range []string{"X-Forwarded-For", "Forwarded"} {
			proxies, err := request.ParseProxies(name, []string{"192.0.2.0/24"})
			if err != nil {
				t.Fatal(err)
			}
			got, attributed := proxies.ClientAddress("192.0.2.1:1", http.Header{name: {said}})
			if got.IsValid() != attributed || got == ip("192.0.2.1") && !strings.Contains(strings.ToLower(said), "c000") && !strings.Contains(said, "192.0.2.1") {
				t.Errorf("%v, %v from %q", got, attributed, said)
			}
		}
	})
}
