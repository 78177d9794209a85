package caps

import (
	"fmt"
	"strings"
	"testing"
)

// The numbers in SQL are the bits of Counter, and every counter is in the list.
func TestCountersInSQL(t *testing.T) {
	t.Parallel()
	for number, counters := range map[string]Counter{ActiveCountersSQL: ActiveCounters, runningCountersSQL: RunningCounters, RunningAllSQL: RunningAll} {
		if number != fmt.Sprint(int(counters)) {
			t.Errorf("%s for %d", number, counters)
		}
	}
	for _, bit := range (ActiveCounters | RunningCounters).bits() {
		if n := strings.Count(countersSQL, fmt.Sprintf(", %d, ", bit)); n != 1 {
			t.Errorf("counter %d is there %d times", bit, n)
		}
	}
}
