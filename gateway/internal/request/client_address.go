package request

import (
	"net/http"
	"net/netip"
	"strings"
)

// The headers in which a proxy may name a client's address.
const (
	headerForwardedFor = "X-Forwarded-For"
	headerForwarded    = "Forwarded" // RFC 7239
)

// ValidProxyHeader says whether proxies may name a client's address in a header of
// this name.
func ValidProxyHeader(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return name == headerForwardedFor || name == headerForwarded
}

// Proxies are the networks that are trusted to name a client's address, and the one
// header in which they do. A second header could be the client's own, passed on by a
// proxy that sets only the first. The zero value trusts none, and then no header is
// read.
type Proxies struct {
	header   string // as http.CanonicalHeaderKey writes it
	networks []netip.Prefix
}

// ClientAddress is the address that a request came from: the peer's, or, if that is a
// trusted proxy, the last untrusted one in the header. attributed is false if such a
// proxy does not name it: there is no header, or an entry cannot be parsed, such as
// "unknown". Such requests are not counted for the proxy: its address may be exempt from
// limits, which a client must not gain by a malformed header. The address is zero if
// remoteAddr is none, as on a Unix socket.
func (p Proxies) ClientAddress(remoteAddr string, header http.Header) (client netip.Addr, attributed bool) {
	peer, ok := parseNode(remoteAddr)
	if !ok || !p.Trusts(peer) {
		return peer, true
	}
	node := plainNode
	if p.header == headerForwarded {
		node = forwardedNode
	}
	return p.walk(peer, addresses(header[p.header], node))
}

// walk goes from the nearest hop outwards while hops are trusted.
func (p Proxies) walk(peer netip.Addr, hops []string) (client netip.Addr, attributed bool) {
	client = peer
	for i := len(hops) - 1; i >= 0 && p.Trusts(client); i-- {
		node, ok := parseNode(hops[i])
		if !ok {
			return netip.Addr{}, false
		}
		client = node
	}
	if len(hops) == 0 {
		return netip.Addr{}, false
	}
	return client, true
}

// Trusts says whether an address is one of the proxies'.
func (p Proxies) Trusts(address netip.Addr) bool {
	for _, prefix := range p.networks {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// ParseProxies reads networks in CIDR notation; a bare address is a network of one, and
// blank text is none. header is where they name clients' addresses.
func ParseProxies(header string, networks []string) (Proxies, error) {
	proxies := Proxies{header: http.CanonicalHeaderKey(header)}
	for _, network := range networks {
		network = strings.TrimSpace(network)
		if network == "" {
			continue
		}
		if address, err := netip.ParseAddr(network); err == nil {
			address = address.Unmap()
			proxies.networks = append(proxies.networks, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return Proxies{}, err
		}
		proxies.networks = append(proxies.networks, prefix.Masked())
	}
	return proxies, nil
}

// addresses lists the hops of all lines of a header, the client's first.
func addresses(lines []string, node func(element string) string) []string {
	var hops []string
	for _, line := range lines {
		for element := range splitList(line, ',') {
			hops = append(hops, node(trimSpace(element)))
		}
	}
	return hops
}

func plainNode(element string) string { return element }

// forwardedNode is the "for" of one element of Forwarded; "" where there is none,
// or more than one.
func forwardedNode(element string) string {
	var node string
	for pair := range splitList(element, ';') {
		name, value, _ := strings.Cut(trimSpace(pair), "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if node != "" {
			return ""
		}
		node = value
		if strings.HasPrefix(value, `"`) {
			node, _ = unquote(value)
		}
	}
	return node
}

// parseNode reads an address, with or without a port, with or without brackets.
func parseNode(s string) (netip.Addr, bool) {
	if withPort, err := netip.ParseAddrPort(s); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.Addr{}, false
		}
	}
	address, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return address.Unmap().WithZone(""), true
}
