package outbound_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/shared/api"
)

// canary counts the connections that reach this machine on any of its addresses.
type canary struct {
	port    string
	reached atomic.Int64
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	c := &canary{}
	_, c.port, _ = net.SplitHostPort(listener.Addr().String())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.reached.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return c
}

func call(t *testing.T, transport http.RoundTripper, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.Body.Close()
}

func hostileHosts() []string {
	return []string{
		// loopback, in all forms that some resolver takes for it
		"127.0.0.1", "127.0.0.2", "127.255.255.254", "127.1", "127.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "017700000001",
		"0177.0.0.1", "127.0.0.1.", "localhost", "LOCALHOST", "localhost.", "[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "①②⑦.⓪.⓪.①", "127。0。0。1", "[::1%25lo]",
		// this machine, whatever it is called
		"0.0.0.0", "0", "0x0", "[::]", "[::ffff:0.0.0.0]", "[::ffff:0:0]",
		// private, link-local, carrier-grade, metadata
		"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255", "169.254.169.254",
		"[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "2852039166", "0xa9fea9fe", "169.254.0.1", "100.64.0.1", "100.100.100.200",
		"100.127.255.255", "168.63.129.16", "192.0.0.192", "[fd00:ec2::254]", "[fd20:ce::254]", "[fc00::1]", "[fe80::1]", "[fe80::a9fe:a9fe]", "[fec0::1]",
		// embedded IPv4
		"[64:ff9b::7f00:1]", "[64:ff9b::169.254.169.254]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]",
		"[2001:0:4136:e378:8000:63bf:80ff:fffe]", "[2001::1]",
		// multicast, broadcast, reserved, documentation, benchmarks
		"224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1",
		"192.88.99.1", "[ff02::1]", "[ff05::2]", "[2001:db8::1]", "[3fff::1]", "[100::1]", "[5f00::1]",
	}
}

// None of the addresses of special purpose is connected to, whatever its form, over
// TLS or without.
func TestHostileAddressesAreNotConnectedTo(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	transport := outbound.NewTransport(outbound.Options{})
	t.Cleanup(transport.Close)
	hosts := hostileHosts()
	for _, host := range hosts {
		for _, scheme := range []string{"http", "https"} {
			err := call(t, transport, scheme+"://"+host+":"+c.port+"/")
			var resolving *net.DNSError
			if !errors.Is(err, outbound.ErrAddress) && !errors.As(err, &resolving) && !strings.Contains(errText(err), "invalid") {
				t.Errorf("%s://%s: %v", scheme, host, err)
			}
		}
	}
	if n := c.reached.Load(); n != 0 || len(hosts) < 60 {
		t.Errorf("FIGURE %d connections reached the canary from %d hostile hosts", n, len(hosts))
	} else {
		t.Logf("FIGURE hostile_hosts=%d canary_connections=%d", len(hosts), n)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What is plainly not to be called is refused when it is set already.
func TestURLsAreJudgedAtOnce(t *testing.T) {
	t.Parallel()
	var none outbound.Guard
	for _, host := range hostileHosts() {
		u, wrong := api.PushURL("https://" + host + "/")
		if wrong == "" {
			wrong = none.Judge(u)
		}
		if wrong == "" {
			t.Errorf("%s may be set", host)
		}
	}
	for _, text := range []string{
		"", "example.com", "//example.com/", "ftp://example.com/", "http://example.com/", "https://", "https:///x", "https://a:b@example.com/",
		"https://example.com:0/", "https://example.com:99999/", "https://example.com:/", "https://example.com/#x", "https://exa mple.com/",
		"https://example..com/", "https:example.com", "https://example.com/\x00", "https://bücher.example/", "https://[::1", "https://1.2.3.4.5/",
	} {
		u, wrong := api.PushURL(text)
		if wrong == "" {
			wrong = none.Judge(u)
		}
		if wrong == "" {
			t.Errorf("%q may be set", text)
		}
	}
	for _, text := range []string{
		"https://example.com", "https://example.com:8443/a/b?c=d", "https://xn--bcher-kva.example./", "https://93.184.215.14/", "https://[2606:2800:21f:cb07::1]/x",
	} {
		u, wrong := api.PushURL(text)
		if wrong == "" {
			wrong = none.Judge(u)
		}
		if wrong != "" {
			t.Errorf("%q %s", text, wrong)
		}
	}
}

// A refusal names the setting that allows the address.
func TestARefusalNamesTheSetting(t *testing.T) {
	t.Parallel()
	var none outbound.Guard
	for text, want := range map[string]string{
		"http://127.0.0.1:9/x": "FORGEQUEUE_PUSH_ALLOW=127.0.0.0/8", "https://127.0.0.2/": "FORGEQUEUE_PUSH_ALLOW=127.0.0.0/8",
		"http://localhost/": "FORGEQUEUE_PUSH_ALLOW=127.0.0.0/8", "https://localhost/": "FORGEQUEUE_PUSH_ALLOW=127.0.0.0/8",
		"https://10.1.2.3/": "FORGEQUEUE_PUSH_ALLOW=10.1.2.3/32", "https://[::1]/": "FORGEQUEUE_PUSH_ALLOW=::1/128",
		"http://example.com/": "FORGEQUEUE_PUSH_ALLOW=10.1.0.0/16, if its address is in that network",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		wrong := none.Judge(u)
		if !strings.HasSuffix(wrong, want) {
			t.Errorf("%s %s, want %s", text, wrong, want)
		}
		setting, _, _ := strings.Cut(want, ",")
		guard, err := outbound.ParseGuard(strings.TrimPrefix(setting, "FORGEQUEUE_PUSH_ALLOW="))
		if err != nil || guard.Judge(u) != "" {
			t.Errorf("%s is refused with %s too: %v", text, want, err)
		}
	}
}

// The operator's networks may be called, and without TLS; a mapped address is the
// IPv4 address that it holds.
func TestOperatorAllowsNetworks(t *testing.T) {
	t.Parallel()
	guard, err := outbound.ParseGuard(" 10.1.0.0/16, fd00::/8,,127.0.0.1/32")
	if err != nil || !guard.AllowsAny() {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "fd12::1": true, "fe80::1": false, "127.0.0.1": true, "127.0.0.2": false,
		"93.184.215.14": false,
	} {
		if got := guard.Allowed(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s allowed: %v", text, got)
		}
	}
	if !guard.MayCall(netip.MustParseAddr("93.184.215.14")) || guard.MayCall(netip.MustParseAddr("::ffff:93.184.215.14")) {
		t.Error("public addresses may be called, mapped ones are odd enough to be refused")
	}
	for _, text := range []string{"10.0.0.1", "x", "10.0.0.0/33", "::ffff:10.0.0.0/104"} {
		if _, err := outbound.ParseGuard(text); err == nil {
			t.Errorf("%q is taken for a network", text)
		}
	}
}

// onePort listens on one port of two addresses: who may be called, and the canary.
func onePort(t *testing.T) (good, canary net.Listener) {
	t.Helper()
	var lastErr error
	for range 50 {
		good, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(good.Addr().String())
		canary, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+port)
		if err == nil {
			return good, canary
		}
		lastErr = err
		_ = good.Close()
	}
	t.Fatalf("no port is free on both addresses: %v", lastErr)
	return nil, nil
}

// A name resolves to an address that may be called, and the next time to the
// canary's: each address is judged when it is dialled, so the canary is not reached.
func TestRebindingReachesNobody(t *testing.T) {
	t.Parallel()
	var good atomic.Int64
	listener, trap := onePort(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		good.Add(1)
		w.Header().Set("Connection", "close")
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	var reached atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := trap.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = trap.Close(); <-done })

	// 127.0.0.2 stands for a public address: it is the one that may be called.
	guard, err := outbound.ParseGuard("127.0.0.2/32")
	if err != nil {
		t.Fatal(err)
	}
	answers := []string{"127.0.0.2", "127.0.0.1", "127.0.0.1", "127.0.0.2"}
	resolver, asked := rebinding(t, answers)
	transport := outbound.NewTransport(outbound.Options{Guard: guard, Resolver: resolver})
	t.Cleanup(transport.Close)
	for i, address := range answers {
		err := call(t, transport, "http://rebind.example:"+port+"/")
		if refused := errors.Is(err, outbound.ErrAddress); refused != (address == "127.0.0.1") {
			t.Errorf("call %d, to %s: %v", i, address, err)
		}
	}
	if reached.Load() != 0 || good.Load() != 2 || asked.Load() < int64(len(answers)) {
		t.Errorf("the canary was reached %d times, the other %d; %d questions", reached.Load(), good.Load(), asked.Load())
	}
	t.Logf("FIGURE rebinding: questions=%d canary_connections=%d", asked.Load(), reached.Load())
}

// rebinding is a resolver that gives each of the addresses once, in order.
func rebinding(t *testing.T, addresses []string) (*net.Resolver, *atomic.Int64) {
	t.Helper()
	socket, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			answer, isA := dnsAnswer(buffer[:n], addresses[min(int(asked.Load()), len(addresses)-1)])
			if isA {
				asked.Add(1)
			}
			_, _ = socket.WriteTo(answer, from)
		}
	}()
	t.Cleanup(func() { _ = socket.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}, &asked
}

// dnsAnswer answers a question of one name (RFC 1035): an address for A, nothing for
// any other type.
func dnsAnswer(question []byte, address string) (answer []byte, isA bool) {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 5 // the root label, type and class
	isA = binary.BigEndian.Uint16(question[end-4:]) == 1
	answer = append([]byte(nil), question[:end]...)
	binary.BigEndian.PutUint16(answer[2:], 0x8180) // a response, recursion available
	for i := 4; i < 12; i++ {
		answer[i] = 0
	}
	answer[5] = 1 // one question
	if !isA {
		return answer, false
	}
	answer[7] = 1                                                   // one answer
	answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the same name, A, IN, for no time, 4 bytes
	return append(answer, netip.MustParseAddr(address).AsSlice()...), true
}

// No redirect is followed, no proxy of the environment asked.
func TestOneCallIsOneCall(t *testing.T) {
	c := newCanary(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:"+c.port)
	}
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		http.Redirect(w, r, "http://127.0.0.1:"+c.port+"/", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	guard, err := outbound.ParseGuard("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	transport := outbound.NewTransport(outbound.Options{Guard: guard})
	t.Cleanup(transport.Close)
	// a name, for Go asks no proxy for loopback addresses
	resolver, _ := rebinding(t, []string{"127.0.0.1"})
	named := outbound.NewTransport(outbound.Options{Guard: guard, Resolver: resolver})
	t.Cleanup(named.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	if err := call(t, transport, server.URL); err != nil {
		t.Error(err)
	}
	if err := call(t, named, "http://somewhere.example:"+port+"/"); err != nil {
		t.Error(err)
	}
	if calls.Load() != 2 || c.reached.Load() != 0 {
		t.Errorf("%d calls, %d connections to the redirect or the proxy", calls.Load(), c.reached.Load())
	}
}

func TestDestinations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://Example.COM./a?b": "https://example.com:443", "http://example.com": "http://example.com:80",
		"https://example.com:8443/": "https://example.com:8443", "https://[2606:2800::1]/": "https://[2606:2800::1]:443",
	} {
		u, wrong := api.PushURL(text)
		if wrong != "" || outbound.Destination(u) != want {
			t.Errorf("%s: %q %s", text, want, wrong)
		}
	}
}
