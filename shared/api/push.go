package api

import (
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Push is where a queue in push mode sends its jobs.
type Push struct {
	// URL is without user and password.
	URL string `json:"url"`
	// TimeoutMS bounds one call.
	TimeoutMS int64 `json:"timeout_ms"`
	// Secret signs the calls (Standard Webhooks, whsec_…). It is shown only in the
	// answer to the PUT that made or replaced it, else null.
	Secret *string `json:"secret"`
	// Settle is what ends a job that is sent to a broker: confirm, its confirm, or worker, a consumer; null
	// for http and https.
	Settle *string `json:"settle"`
	// CredentialsSet says that a user and password for the broker are stored.
	CredentialsSet bool            `json:"credentials_set"`
	Breaker        BreakerSettings `json:"breaker"`
}

// request is the request that sets this; nil for nil.
func (p *Push) request() *PushRequest {
	if p == nil {
		return nil
	}
	return &PushRequest{URL: p.URL, TimeoutMS: &p.TimeoutMS, Settle: p.Settle, Breaker: &BreakerSettingsRequest{
		Calls: &p.Breaker.Calls, FailureRatio: &p.Breaker.FailureRatio, OpenMS: &p.Breaker.OpenMS, HalfOpen: &p.Breaker.HalfOpen,
	}}
}

// PushRequest sets it; what is absent is the default.
type PushRequest struct {
	// URL is https, without user, password or fragment, or names a broker: amqps://host/exchange/key,
	// tls://host/subject for NATS, kafka+tls://host/topic. A broker's may have user:password@, which
	// is stored sealed and never shown. http, amqp, nats and kafka only where the operator allows
	// the address.
	URL string `json:"url"`
	// TimeoutMS bounds one call.
	TimeoutMS *int64 `json:"timeout_ms,omitzero"`
	// Secret takes the place of the one that is there. Without it that one stays, and
	// where there is none one is made.
	Secret *string `json:"secret,omitzero"`
	// NewSecret makes a new one.
	NewSecret bool `json:"new_secret,omitzero"`
	// Settle is what ends a job that is sent to a broker: confirm or worker; confirm if absent.
	Settle  *string                 `json:"settle,omitzero"`
	Breaker *BreakerSettingsRequest `json:"breaker,omitzero"`
}

// BreakerSettings say when the breaker of a destination opens, and for how long.
type BreakerSettings struct {
	// Calls is the minimum number of calls that are evaluated.
	Calls int `json:"calls"`
	// FailureRatio is the ratio of failed calls at which the breaker opens, above 0 to 1.
	FailureRatio float64 `json:"failure_ratio"`
	// OpenMS is how long the breaker stays open before it tests the destination.
	OpenMS int64 `json:"open_ms"`
	// HalfOpen is the number of test calls after that.
	HalfOpen int `json:"half_open"`
}

// BreakerSettingsRequest is a partial BreakerSettings.
type BreakerSettingsRequest struct {
	Calls        *int     `json:"calls,omitzero"`
	FailureRatio *float64 `json:"failure_ratio,omitzero"`
	OpenMS       *int64   `json:"open_ms,omitzero"`
	HalfOpen     *int     `json:"half_open,omitzero"`
}

// Breaker is the state of a destination's breaker, as one core sees it.
type Breaker struct {
	// State is closed, open or half-open.
	State string `json:"state"`
	// Since is when it entered this state; null if it was never open.
	Since *Time `json:"since" swaggertype:"string" format:"date-time"`
	// RetryAt is when an open breaker allows calls again.
	RetryAt *Time `json:"retry_at" swaggertype:"string" format:"date-time"`
}

// States of a breaker.
const (
	BreakerClosed   = "closed"
	BreakerOpen     = "open"
	BreakerHalfOpen = "half-open"
)

// PushedJob is the body of a push call: a job as its destination gets it.
type PushedJob struct {
	ID            string            `json:"id"`
	User          *string           `json:"user"`
	Type          string            `json:"type"`
	Queue         string            `json:"queue"`
	Payload       json.RawMessage   `json:"payload" swaggertype:"object"`
	Priority      int               `json:"priority"`
	Attempt       int               `json:"attempt"`
	MaxAttempts   int               `json:"max_attempts"`
	Epoch         int64             `json:"epoch"`
	Deadline      *Time             `json:"deadline" swaggertype:"string" format:"date-time"`
	TimeoutMS     *int64            `json:"timeout_ms"`
	Tags          []string          `json:"tags"`
	Metadata      map[string]string `json:"metadata"`
	CorrelationID *string           `json:"correlation_id"`
	Traceparent   *string           `json:"traceparent"`
	CreatedAt     Time              `json:"created_at" swaggertype:"string" format:"date-time"`
}

// Headers of a push call, beside those of Standard Webhooks.
const (
	HeaderPushJobID   = "Forgequeue-Job-Id"
	HeaderPushAttempt = "Forgequeue-Attempt"
	HeaderPushEpoch   = "Forgequeue-Epoch"
	// HeaderPushLeaseToken is in messages to brokers only.
	HeaderPushLeaseToken = "Forgequeue-Lease-Token"
	HeaderCorrelationID  = "X-Correlation-Id"
)

// Limits and defaults of a queue in push mode.
const (
	MaxPushURL         = 2048
	MaxPushTimeout     = 30 * time.Minute
	DefaultPushTimeout = 30 * time.Second
	// MaxPushAnswer is how much of an answer's body becomes the result, in bytes.
	MaxPushAnswer = 64 << 10
	// MaxDeferral is how long in all a job waits for a destination that answers 429 or
	// 503, without spending an attempt.
	MaxDeferral = 24 * time.Hour

	DefaultBreakerCalls        = 20
	DefaultBreakerFailureRatio = 0.5
	DefaultBreakerOpen         = 30 * time.Second
	DefaultBreakerHalfOpen     = 5
	maxBreakerOpen             = time.Hour
	maxBreakerCalls            = 1000
	minPushTimeout             = 100 * time.Millisecond
)

// PushSecretPrefix begins every secret, by Standard Webhooks.
const PushSecretPrefix = "whsec_"

// A secret has 24 to 64 bytes, by Standard Webhooks.
const (
	minPushSecret = 24
	maxPushSecret = 64
)

// ValidPushSecret says whether s is whsec_ and 24 to 64 bytes in base64.
func ValidPushSecret(s string) bool {
	text, ok := strings.CutPrefix(s, PushSecretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	return ok && err == nil && len(key) >= minPushSecret && len(key) <= maxPushSecret
}

func (p *PushRequest) rules(r refusals) {
	r.rule("url", urlRule)
	p.where(r)
	r.millis("timeout_ms", p.TimeoutMS, minPushTimeout, MaxPushTimeout)
	r.text("secret", p.Secret, &secretText)
	r.check(p.Secret == nil || !p.NewSecret, "new_secret", "cannot be combined with secret; use one of them")
	if p.Breaker != nil {
		p.Breaker.rules(r.in("breaker."))
	}
}

func (b *BreakerSettingsRequest) rules(r refusals) {
	whole(r, "calls", b.Calls, 1, maxBreakerCalls)
	whole(r, "half_open", b.HalfOpen, 1, maxBreakerCalls)
	r.millis("open_ms", b.OpenMS, minPushTimeout, maxBreakerOpen)
	r.above("failure_ratio", b.FailureRatio, 1, "")
}

const (
	wrongScheme = "must begin with https://"
	wrongPort   = "must have a port of 1 to 65535, or none"
	wrongHost   = "must name its host by a name of letters, digits and dashes, or by an IP address in its usual form"
)

// PushURL reads a destination's URL, or says what is wrong with it. Whether its
// address may be called is for core to say, when it calls.
func PushURL(text string) (u *url.URL, wrong string) {
	const form = "must be a URL such as https://example.com/jobs"
	if text == "" || len(text) > MaxPushURL || !visible(text) {
		return nil, form + ", of visible ASCII characters, at most 2048"
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return nil, form
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, wrongScheme
	case u.User != nil:
		return nil, "must not have a user or password in it; the call is signed"
	case u.Fragment != "" || strings.Contains(text, "#"):
		return nil, "must not have a fragment"
	case strings.HasSuffix(u.Host, ":") || !validPort(u.Port()):
		return nil, wrongPort
	case !validHost(u.Hostname()):
		return nil, wrongHost
	}
	return u, ""
}

// visible says whether s is visible ASCII alone.
func visible(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= 0x20 || c > 0x7e })
}

func validPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// validHost refuses the odd forms of addresses that some resolvers read as one:
// whatever ends in a number must be an address (WHATWG URL, "ends in a number").
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return !strings.Contains(host, "%")
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notInName) {
			return false
		}
	}
	last := labels[len(labels)-1]
	_, err := strconv.ParseUint(last, 0, 64)
	return len(host) <= 253 && err != nil && strings.ContainsFunc(last, notDigit)
}

func notDigit(c rune) bool { return c < '0' || c > '9' }

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && notDigit(c) && c != '-' && c != '_'
}
