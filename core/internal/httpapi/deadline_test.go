package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A gateway can only shorten the time that core takes for a call: what it leaves
// out, gets wrong or exaggerates leaves core's own bound.
func TestTheGatewaysDeadlineShortens(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		header string
		wait   time.Duration
		want   time.Duration
	}{
		{"", 0, defaultTimeout},
		{"1500", 0, 1500 * time.Millisecond},
		{"1", 0, time.Millisecond},
		{"29999", 0, 29999 * time.Millisecond},
		{"31000", 0, defaultTimeout},
		{"31000", api.MaxWait, 31 * time.Second},
		{"99999999", api.MaxWait, defaultTimeout + api.MaxWait},
		{"0", 0, defaultTimeout},
		{"-5", 0, defaultTimeout},
		{"soon", 0, defaultTimeout},
		{"9223372036854775807", 0, defaultTimeout}, // as nanoseconds it would be negative
		{"99999999999999999999", 0, defaultTimeout},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/internal/v1/get-job", http.NoBody)
		if test.header != "" {
			r.Header.Set(hop.TimeoutHeader, test.header)
		}
		before := time.Now()
		ctx, cancel := withTimeout(r, test.wait)
		after := time.Now()
		deadline, ok := ctx.Deadline()
		cancel()
		if !ok || deadline.Before(before.Add(test.want)) || deadline.After(after.Add(test.want)) {
			t.Errorf("%q with a wait of %v: %v, want %v", test.header, test.wait, deadline.Sub(before), test.want)
		}
	}
}
