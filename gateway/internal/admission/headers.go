package admission

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
)

// The header fields of draft-ietf-httpapi-ratelimit-headers-10: lists of strings
// with parameters (RFC 9651). A policy that was applied to several users, as by a
// batch, is shown once, for the user with the least remaining.

// RateLimitPolicy is the value of RateLimit-Policy (section 3), or "" for no
// policy: q is the burst, w the whole seconds, at least 1, in which that much is
// regained. Where a burst is regained in less than a second, q per w says less
// than the rate allows, never more.
func RateLimitPolicy(policies []bucket.PolicyState) string {
	return field(policies, func(b *strings.Builder, p *bucket.PolicyState) {
		parameter(b, ";q=", p.Limit)
		parameter(b, ";w=", max(1, seconds(p.Window)))
	})
}

// RateLimit is the value of RateLimit (section 4), or "" for no policy: r is what
// remains, t the whole seconds until there is more, for a policy that refused
// until it would admit the same request.
func RateLimit(policies []bucket.PolicyState) string {
	return field(policies, func(b *strings.Builder, p *bucket.PolicyState) {
		parameter(b, ";r=", p.Remaining)
		parameter(b, ";t=", seconds(max(p.Next, p.RetryAfter)))
	})
}

// RetryAfter is the value of Retry-After (RFC 9110, section 10.2.3): whole
// seconds, rounded up, at least 1.
func RetryAfter(wait time.Duration) string {
	return strconv.FormatInt(max(1, seconds(wait)), 10)
}

// WholeMilliseconds is a wait as problems and answers have it, rounded up, so that a
// client that waits so long is never too early.
func WholeMilliseconds(wait time.Duration) time.Duration {
	return (wait + time.Millisecond - 1).Truncate(time.Millisecond)
}

// SetHeaders sets the fields of a decision: the first two where there are
// policies, Retry-After where it refuses for a time.
func SetHeaders(header http.Header, d *Decision) {
	if len(d.Policies) > 0 {
		// under the names that Set would make of RateLimit-Policy and RateLimit, each time
		header["Ratelimit-Policy"] = []string{RateLimitPolicy(d.Policies)}
		header["Ratelimit"] = []string{RateLimit(d.Policies)}
	}
	if d.Verdict == bucket.RateLimited || d.Verdict == bucket.CapReached {
		header.Set("Retry-After", RetryAfter(d.RetryAfter))
	}
}

// field writes one list, the policies in the order of their first occurrence.
func field(policies []bucket.PolicyState, parameters func(*strings.Builder, *bucket.PolicyState)) string {
	const usual = len(`"credential-requests";q=1000000;w=1000000, `)
	var b strings.Builder
	b.Grow(usual * len(policies))
	for i := range policies {
		if firstOf(policies, i) {
			if b.Len() > 0 {
				b.WriteString(", ")
			}
			b.WriteByte('"')
			b.WriteString(policies[i].Name)
			b.WriteByte('"')
			parameters(&b, tightest(policies[i:]))
		}
	}
	return b.String()
}

// firstOf says whether policy i is the first of its name. Those of one name lie
// together or, user by user, in pairs.
func firstOf(policies []bucket.PolicyState, i int) bool {
	for j := range i {
		if policies[j].Name == policies[i].Name {
			return false
		}
	}
	return true
}

// tightest is the policy, of those with the name of the first, that refused for
// longest; if none refused, the one with the least remaining.
func tightest(policies []bucket.PolicyState) *bucket.PolicyState {
	least := &policies[0]
	for i := range policies[1:] {
		p := &policies[i+1]
		if p.Name != least.Name {
			continue
		}
		if p.RetryAfter > least.RetryAfter || p.RetryAfter == least.RetryAfter && p.Remaining < least.Remaining {
			least = p
		}
	}
	return least
}

func parameter(b *strings.Builder, name string, value int64) {
	b.WriteString(name)
	var digits [20]byte
	b.Write(strconv.AppendInt(digits[:0], value, 10))
}

// seconds are whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	return int64(math.Ceil(d.Seconds()))
}
