package admission

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of the limits by address, as problems have them.
const (
	PolicyAddress    = "address-requests"
	PolicyFailedKeys = "failed-keys"
)

// Addresses limits what comes from an address: its requests, before the caller is known,
// and its failures to authenticate. It is safe for concurrent use.
type Addresses struct {
	requests *IPLimit
	failures *IPLimit
	refusals *prometheus.CounterVec
}

// NewAddresses makes Addresses. requests limits the requests of an address, failures how
// often it may fail to authenticate; nil is no limit.
func NewAddresses(requests, failures *IPLimit, registry prometheus.Registerer) *Addresses {
	return &Addresses{
		requests: requests,
		failures: failures,
		refusals: newAddressRefusals(registry),
	}
}

// AddressRefusedError is a request that was refused for the address that it came from.
type AddressRefusedError struct {
	Policy     string
	Burst      int
	RetryAfter time.Duration
}

func (e *AddressRefusedError) Error() string { return fmt.Sprintf("admission: %s", e.Policy) }

// Admit charges a request to an address. Requests that a proxy does not attribute share
// the bucket of the zero address. The error is an *AddressRefusedError, here and below.
func (a *Addresses) Admit(address netip.Addr, attributed bool) error {
	if a.requests == nil || attributed && unlimited(address) {
		return nil
	}
	if wait, ok := a.requests.Allow(address); !ok {
		return a.refuse(PolicyAddress, a.requests, wait)
	}
	return nil
}

// unlimited addresses do not identify a client: loopback, which is also that of
// a local proxy that is not among the trusted ones, and none, as on a Unix
// socket.
func unlimited(address netip.Addr) bool { return !address.IsValid() || address.IsLoopback() }

// CountFailure counts an invalid credential. The error is the answer instead of 401
// once there were too many.
func (a *Addresses) CountFailure(address netip.Addr) error {
	if a.failures == nil {
		return nil
	}
	if wait, ok := a.failures.Allow(address); !ok {
		return a.refuse(PolicyFailedKeys, a.failures, wait)
	}
	return nil
}

func (a *Addresses) refuse(policy string, limit *IPLimit, wait time.Duration) error {
	a.refusals.WithLabelValues(policy).Inc()
	return &AddressRefusedError{Policy: policy, Burst: limit.Burst(), RetryAfter: wait}
}

func newAddressRefusals(registry prometheus.Registerer) *prometheus.CounterVec {
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forgequeue_address_refusals_total",
		Help: "Requests refused because of their client address, before the API key was checked, by policy: address-requests, failed-keys.",
	}, []string{"policy"})
	for _, policy := range []string{PolicyAddress, PolicyFailedKeys} {
		refusals.WithLabelValues(policy) // there from the start, at 0
	}
	registry.MustRegister(refusals)
	return refusals
}
