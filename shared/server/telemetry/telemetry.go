// Package telemetry makes the logger, the metrics registry and the private
// handler that both services share.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Formats of a log line.
const (
	FormatJSON = "json"
	FormatText = "text"
)

// NewLogger makes a logger that writes json or text lines to w. level is debug,
// info, warn or error, in any case; slog's forms such as "info+2" work as well.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: must be debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(w, options)), nil
	case FormatText:
		return slog.New(slog.NewTextHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("log format %q: must be json or text", format)
	}
}

// NewRegistry makes a registry that already collects the Go runtime and the
// process. Each service has its own, so that both can live in one process.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// AdminHandler serves GET /metrics and /debug/pprof/. It tells much about the
// process, so it belongs on a private listener, never on the public one. The profiles,
// which hold what is in memory and cost time, are for callers on the same machine only:
// a listener that Prometheus reaches, others may reach too. To them they are 404.
func AdminHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	mux.HandleFunc("GET /debug/pprof/", onlyFromHere(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/cmdline", onlyFromHere(pprof.Cmdline))
	mux.HandleFunc("GET /debug/pprof/profile", onlyFromHere(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", onlyFromHere(pprof.Symbol))
	mux.HandleFunc("POST /debug/pprof/symbol", onlyFromHere(pprof.Symbol))
	mux.HandleFunc("GET /debug/pprof/trace", onlyFromHere(pprof.Trace))
	return mux
}

// onlyFromHere lets a request through whose connection began on this machine: at a
// loopback address, or at the very address at which it ends. Host must be local too: a
// page in a browser on this machine can have its own name resolve to this machine (DNS
// rebinding), and the browser then sends that name.
func onlyFromHere(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		here := err == nil && from.Addr().Unmap().IsLoopback()
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && err == nil {
			here = here || from.Addr().Unmap() == local.AddrPort().Addr().Unmap()
		}
		if !here || !hostIsHere(r) {
			http.NotFound(w, r)
			return
		}
		next(w, r)
	}
}

// hostIsHere says whether the Host header is localhost, a loopback address, or the
// address at which the connection ends.
func hostIsHere(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return address.Unmap().IsLoopback() || ok && address.Unmap() == local.AddrPort().Addr().Unmap()
}

// gcPercent lets the heap grow to five times what is alive before it is collected.
// A service's live heap is small, and collecting it less often gave a fifth more
// requests.
const gcPercent = 400

// TuneGC sets the garbage collector for a service; what GOGC says in the
// environment stands. A service calls it when it starts.
func TuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// sparePs is how many goroutines may run at once beyond the processors.
const sparePs = 2

// TuneProcessors lets two goroutines more run at once than there are processors. While all of them compute, Go looks at the
// network every 10 ms only, and a request passes it six times: with one to spare the kernel decides who runs, and what has
// waited for the network goes first. GOMAXPROCS in the environment stands, and so does a limit of the container, which more
// threads would use up early in each period. A service calls it when it starts.
func TuneProcessors() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) == runtime.NumCPU() {
		runtime.GOMAXPROCS(runtime.NumCPU() + sparePs)
	}
}
