package admission

import (
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the networks whose word about a client's address is taken. None is
// the default, and then no header is looked at.
type Proxies []netip.Prefix

// ClientAddress is the address that a request came from: the peer's, or, where
// that is a proxy of ours, the last one in X-Forwarded-For or Forwarded (RFC 7239)
// that is not. An entry that cannot be read, as "unknown", ends the walk at the
// proxy that wrote it. Where both headers are there and disagree, one of them was
// handed on unread and may be the client's own: then the proxy's address counts.
// It gives the zero address where remoteAddr is none, as on a Unix socket.
func (p Proxies) ClientAddress(remoteAddr string, header http.Header) netip.Addr {
	peer, ok := parseNode(remoteAddr)
	if !ok || !p.trusts(peer) {
		return peer
	}
	forwardedFor, hasFor := p.walk(peer, addresses(header.Values("X-Forwarded-For"), plainNode))
	forwarded, has := p.walk(peer, addresses(header.Values("Forwarded"), forwardedNode))
	switch {
	case hasFor && has && forwardedFor != forwarded:
		return peer
	case hasFor:
		return forwardedFor
	default:
		return forwarded
	}
}

// walk goes from the nearest hop outwards for as long as hops are trusted.
func (p Proxies) walk(peer netip.Addr, hops []string) (client netip.Addr, present bool) {
	client = peer
	for i := len(hops) - 1; i >= 0 && p.trusts(client); i-- {
		hop, ok := parseNode(hops[i])
		if !ok {
			break
		}
		client = hop
	}
	return client, len(hops) > 0
}

func (p Proxies) trusts(address netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// ParseProxies reads networks in CIDR notation; a bare address is itself alone, and
// nothing but spaces is none.
func ParseProxies(networks []string) (Proxies, error) {
	var proxies Proxies
	for _, network := range networks {
		network = strings.TrimSpace(network)
		if network == "" {
			continue
		}
		if address, err := netip.ParseAddr(network); err == nil {
			address = address.Unmap()
			proxies = append(proxies, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return nil, err
		}
		proxies = append(proxies, prefix.Masked())
	}
	return proxies, nil
}

// addresses lists the hops of all lines of a header, the client's first.
func addresses(lines []string, node func(element string) string) []string {
	var hops []string
	for _, line := range lines {
		for element := range unquotedParts(line, ',') {
			hops = append(hops, node(strings.Trim(element, " \t")))
		}
	}
	return hops
}

func plainNode(element string) string { return element }

// forwardedNode is the "for" of one element of Forwarded; "" where there is none,
// or more than one.
func forwardedNode(element string) string {
	var node string
	for pair := range unquotedParts(element, ';') {
		name, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
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

// unquotedParts splits at a separator that is not inside a quoted string.
func unquotedParts(s string, separator byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		from, quoted := 0, false
		for i := 0; i < len(s); i++ {
			switch {
			case quoted && s[i] == '\\':
				i++
			case s[i] == '"':
				quoted = !quoted
			case s[i] == separator && !quoted:
				if !yield(s[from:i]) {
					return
				}
				from = i + 1
			}
		}
		yield(s[from:])
	}
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
