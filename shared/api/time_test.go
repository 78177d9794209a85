package api_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

func TestTimeIsUTCWithSixDecimals(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", -90*60)
	times := []time.Time{{}, time.Unix(0, 0), time.Unix(1, 999_999_999), time.Date(9999, 12, 31, 23, 59, 59, 1000, time.UTC)}
	for range 1000 {
		times = append(times, time.Unix(rand.Int64N(200_000_000_000), rand.Int64N(1_000_000_000)).In(zone))
	}
	for _, at := range times {
		text, err := api.At(at).MarshalJSON()
		if want := at.UTC().Format(`"2006-01-02T15:04:05.000000Z"`); err != nil || string(text) != want {
			t.Errorf("%s, %v, want %s", text, err, want)
		}
	}
}
