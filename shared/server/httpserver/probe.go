package httpserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	probeTimeout = 3 * time.Second
	// probeShown is how much of an answer an error repeats.
	probeShown = 512
)

// Probe asks the server that listens on address, host:port, for path, and fails
// unless it answers 200. An address of every interface is asked on loopback, and no
// proxy from the environment comes between. It is the health check of an image that
// has no other program.
func Probe(ctx context.Context, address, path string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // what counts was read
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, probeShown)) // for people
		return fmt.Errorf("health: %s answers %d: %s", path, response.StatusCode, text)
	}
	return nil
}

// HostPort names a listener for people: the name of this host, and the port.
func HostPort(l net.Listener) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil { // not of TCP
		return host
	}
	return net.JoinHostPort(host, port)
}
