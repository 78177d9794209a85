// Package outbound makes calls to addresses that tenants name. The address is known only when it is
// dialled: names are resolved each time, and their owner controls the answer. So the address is
// checked between the resolver and the connect, and nowhere else.
package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"code.dny.dev/ssrf"
)

// ErrAddress says that an address may not be called. Its text has no address: what a name resolves
// to inside the operator's network must not be disclosed.
var ErrAddress = errors.New("the address may not be called")

// never are the special-purpose addresses inside the unicast ranges, by IANA's registries for IPv4 and IPv6: private
// networks, documentation, benchmarks, relays that lead to embedded IPv4 addresses. 168.63.129.16 is in no registry:
// it is a cloud's host, from inside each of its machines.
//
//nolint:gochecknoglobals // a table
var never = slices.Concat(ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes, []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")})

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
	// Loopback, unspecified, mapped and compatible IPv4, NAT64, unique local, link-local, site-local and multicast
	// addresses are outside the allocated range of the IPv6 internet.
	if address.Is6() && !ssrf.IPv6GlobalUnicast.Contains(address) {
		return false
	}
	for _, prefix := range never {
		if prefix.Contains(address) {
			return false
		}
	}
	return true
}
