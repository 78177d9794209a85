package push

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/shared/api"
)

// errTimeout cancels a call that takes too long.
var errTimeout = errors.New("push: the call took too long")

// send makes one call and reads its answer, up to the bound. A call that core cancelled gives
// errCancelledByCore.
func send(transport http.RoundTripper, r *http.Request) (*answer, error) {
	response, err := transport.RoundTrip(r)
	if err != nil {
		return failed(r.Context(), err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, api.MaxPushAnswer+1))
	if err != nil {
		return failed(r.Context(), err)
	}
	return &answer{status: response.StatusCode, header: response.Header, body: body, arrived: time.Now()}, nil
}

func failed(ctx context.Context, err error) (*answer, error) {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		return &answer{failure: &failure{kind: "timeout", message: "the destination did not answer in time"}}, nil
	case cause != nil:
		return nil, errCancelledByCore
	}
	return &answer{failure: classify(err)}, nil
}

// classify names a failure. The texts are our own: those of the net package contain addresses, and
// the tenant must not see what a name resolves to in the operator's network.
func classify(err error) *failure {
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var verification *tls.CertificateVerificationError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case errors.Is(err, outbound.ErrAddress):
		return &failure{kind: "address_refused", message: "the destination's address may not be called: it lies inside a network, or is of special purpose"}
	case errors.As(err, &dns):
		return &failure{kind: "dns", message: "the destination's name could not be resolved", retry: dns.IsTemporary}
	case errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &host) || errors.As(err, &verification):
		return &failure{kind: "tls", message: "the destination's certificate is not valid for its name, or not trusted"}
	case errors.As(err, &alert) || errors.As(err, &record):
		return &failure{kind: "tls", message: "the destination does not speak TLS as it must"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &failure{kind: "connection_refused", message: "the destination refused the connection", retry: true}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &failure{kind: "timeout", message: "the connection to the destination could not be made in time"}
	case strings.Contains(err.Error(), "exceeded") && strings.Contains(err.Error(), "header"):
		return &failure{kind: "answer_refused", message: "the destination's answer has too large a header"}
	}
	return &failure{kind: "connection_lost", message: "the connection to the destination was lost", retry: true}
}
