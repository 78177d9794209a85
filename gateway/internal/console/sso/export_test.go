package sso

import "net/http"

// MaxExchanges is for tests.
const MaxExchanges = maxExchanges

// Through makes the requests to the provider by another transport, without a timeout: that would need a goroutine.
func (p *Provider) Through(transport http.RoundTripper) {
	p.client = &http.Client{Transport: transport}
}
