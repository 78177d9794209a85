package bench

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
)

// resolver finds a host's addresses, as net.Resolver does.
type resolver func(ctx context.Context, network, host string) ([]netip.Addr, error)

// onlyLoopback refuses a server on another machine: a benchmark is an attack on a
// server whose owner does not expect it. All addresses of a name must be this
// machine's.
func onlyLoopback(ctx context.Context, base *url.URL, look resolver) error {
	host := base.Hostname()
	refused := fmt.Errorf("%s is not this machine's loopback: --allow-remote says that the load is meant for it", host)
	if ip, err := netip.ParseAddr(host); err == nil {
		if !ip.Unmap().IsLoopback() {
			return refused
		}
		return nil
	}
	addresses, err := look(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("%s cannot be resolved, and so is not known to be this machine (--allow-remote): %w", host, err)
	}
	for _, ip := range addresses {
		if !ip.Unmap().IsLoopback() {
			return refused
		}
	}
	if len(addresses) == 0 {
		return refused
	}
	return nil
}

func lookUp(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, network, host)
}
