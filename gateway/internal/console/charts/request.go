package charts

import (
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Request asks for the steps of a span that ends now, or up to a granularity before, so that open pages ask for the same.
func Request(span string, now time.Time, granularity time.Duration) client.StatsRequest {
	to := now.UTC().Truncate(granularity)
	from, step := to.Add(-time.Hour), api.StepMinute
	if span == SpanDay {
		from, step = to.Add(-24*time.Hour), api.StepHour
	}
	return client.StatsRequest{From: new(api.At(from)), To: new(api.At(to)), Step: step}
}
