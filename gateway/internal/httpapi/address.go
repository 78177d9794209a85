package httpapi

import (
	"net/netip"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Names of the limits by address, as problems have them.
const (
	policyAddress    = "address-requests"
	policyFailedKeys = "failed-keys"
)

// limitAddress finds out where a request comes from, and refuses it where too
// many do, before anything else of it is looked at.
func (s *Server) limitAddress(g *gin.Context) {
	c := callOf(g)
	var attributed bool
	c.address, attributed = s.proxies.ClientAddress(g.Request.RemoteAddr, g.Request.Header)
	if s.ipLimit == nil || attributed && unlimited(c.address) || isProbe(g.FullPath()) {
		return
	}
	// What a proxy does not attribute shares the bucket of the zero address.
	if wait, ok := s.ipLimit.Allow(c.address); !ok {
		refuse(g, s.tooMany(policyAddress, s.ipLimit.Burst(), wait, "Too many requests came from this address."))
		g.Abort()
	}
}

// unlimited addresses stand for nobody in particular: this machine's own, which
// is also that of a proxy here that is not among the trusted ones, and none, as
// on a Unix socket.
func unlimited(address netip.Addr) bool { return !address.IsValid() || address.IsLoopback() }

// isProbe says whether a route is asked by those who decide whether this gateway
// gets requests at all: a flood must not make it look dead. It costs next to
// nothing.
func isProbe(route string) bool { return route == "/livez" || route == "/readyz" }

// strangersPerSecond is how many keys that may be invented are looked up a second for
// all addresses together that have failed too often. It keeps an address with many
// clients from being shut: a good key needs one look-up, and is known from then on.
const strangersPerSecond = 50

// admitStranger refuses to have core asked for a key that may be invented, of an
// address that has sent too many credentials that are no good. Nil lets it ask.
func (s *Server) admitStranger(c *call) error {
	if s.failedKeys == nil {
		return nil
	}
	wait, exhausted := s.failedKeys.Exhausted(c.address)
	if !exhausted || s.strangers.Allow() {
		return nil
	}
	return s.tooManyFailures(wait)
}

// countFailure counts a credential that is no good. It gives what is answered in place of 401
// where there were too many.
func (s *Server) countFailure(c *call) error {
	if s.failedKeys == nil {
		return nil
	}
	wait, ok := s.failedKeys.Allow(c.address)
	if ok {
		return nil
	}
	return s.tooManyFailures(wait)
}

func (s *Server) tooManyFailures(wait time.Duration) error {
	return s.tooMany(policyFailedKeys, s.failedKeys.Burst(), wait, "Too many credentials that are no good came from this address.")
}

func (s *Server) tooMany(policy string, burst int, wait time.Duration, detail string) *problem.Problem {
	s.addressRefusals.WithLabelValues(policy).Inc()
	wait = wholeMilliseconds(wait)
	ms := wait.Milliseconds()
	p := problem.New(problem.RateLimited, detail+" Wait as long as Retry-After says.")
	p.Policies = append(p.Policies, problem.Policy{Name: policy, Limit: int64(burst), Current: int64(burst), RetryAfterMS: &ms})
	return p.WithRetryAfter(wait)
}

// wholeMilliseconds rounds up: who waits as long as a problem says is not a
// moment too early.
func wholeMilliseconds(wait time.Duration) time.Duration {
	return (wait + time.Millisecond - 1).Truncate(time.Millisecond)
}

func newAddressRefusals(registry prometheus.Registerer) *prometheus.CounterVec {
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forgequeue_address_refusals_total",
		Help: "Requests refused by the address they came from, before anybody was known, by policy: address-requests, failed-keys.",
	}, []string{"policy"})
	for _, policy := range []string{policyAddress, policyFailedKeys} {
		refusals.WithLabelValues(policy) // there from the start, at 0
	}
	registry.MustRegister(refusals)
	return refusals
}
