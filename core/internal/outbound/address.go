// Package outbound makes calls to addresses that tenants name. The address is known only when it is
// dialled: names are resolved each time, and their owner controls the answer. So the address is
// checked between the resolver and the connect, and nowhere else.
package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ErrAddress says that an address may not be called. Its text has no address: what a name resolves
// to inside the operator's network must not be disclosed.
var ErrAddress = errors.New("the address may not be called")

// never are the special-purpose addresses inside the unicast ranges (IANA's registries for IPv4 and
// IPv6): private networks, documentation, benchmarks, relays that lead to embedded IPv4 addresses.
//
//nolint:gochecknoglobals // a table
var never = prefixes(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // carrier-grade NAT, and a metadata service
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // a cloud's host, from inside each of its machines
	"169.254.0.0/16",   // link-local: metadata services
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments, and a metadata service
	"192.0.2.0/24",     // documentation
	"192.31.196.0/24",  // AS112
	"192.52.193.0/24",  // AMT
	"192.88.99.0/24",   // 6to4 relays
	"192.168.0.0/16",   // private
	"192.175.48.0/24",  // AS112
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, broadcast

	"2001::/23",         // protocol assignments: Teredo, ORCHID, benchmarks
	"2001:db8::/32",     // documentation
	"2002::/16",         // 6to4: contains an IPv4 address
	"2620:4f:8000::/48", // AS112
	"3fff::/20",         // documentation
)

// global is the allocated range of the IPv6 internet. Loopback, unspecified, mapped and compatible
// IPv4, NAT64, unique local, link-local, site-local and multicast addresses are outside it.
//
//nolint:gochecknoglobals // a constant
var global = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	made := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		made[i] = netip.MustParsePrefix(text)
	}
	return made
}

// Guard decides which addresses may be called: public ones, and those that the operator allows.
type Guard struct{ allowed []netip.Prefix }

// ParseGuard reads the operator's networks, in CIDR notation with commas between.
func ParseGuard(text string) (Guard, error) {
	var g Guard
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if err != nil || prefix.Addr().Is4In6() {
			return Guard{}, fmt.Errorf("%q is no network in CIDR notation, such as 10.0.0.0/8", part)
		}
		g.allowed = append(g.allowed, prefix.Masked())
	}
	return g, nil
}

// AllowsAny says whether the operator allows any network.
func (g Guard) AllowsAny() bool { return len(g.allowed) > 0 }

// Allowed says whether the operator allows the address. A mapped IPv4 address is treated as the
// IPv4 address to which the connection goes.
func (g Guard) Allowed(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	for _, prefix := range g.allowed {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// MayCall says whether the address may be called over TLS: it is public, or allowed.
func (g Guard) MayCall(address netip.Addr) bool { return g.Allowed(address) || public(address) }

func public(address netip.Addr) bool {
	if !address.IsValid() || address.Zone() != "" || address.Is4In6() {
		return false
	}
	if address.Is6() && !global.Contains(address) {
		return false
	}
	for _, prefix := range never {
		if prefix.Contains(address) {
			return false
		}
	}
	return true
}
