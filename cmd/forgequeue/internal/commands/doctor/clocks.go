package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/diagnosis"
)

// clock is how far another clock is ahead of this machine's, give or take doubt.
type clock struct {
	whose        string
	ahead, doubt time.Duration
}

// String has no more digits than are certain.
func (c clock) String() string {
	switch {
	case c.doubt < dateDoubt:
		return fmt.Sprintf("%s %+.3f s", c.whose, c.ahead.Seconds())
	case c.ahead.Abs() <= 2*c.doubt:
		return c.whose + " within 1 s"
	}
	return fmt.Sprintf("%s %+.0f s", c.whose, c.ahead.Seconds())
}

// dateDoubt is the error of a Date header: it has whole seconds.
const dateDoubt = time.Second / 2

// gatewayClock is the clock of the gateway's Date headers. ServerTime is at the end of their second.
func gatewayClock(c *client.Client) []clock {
	told, ok := c.ServerTime()
	if !ok {
		return nil
	}
	return []clock{{"the gateway", time.Until(told) - dateDoubt, dateDoubt}}
}

const (
	// Above skewWarn times in lists and flags mislead, above skewFail deadlines,
	// expiries of keys and TLS go wrong.
	skewWarn = 2 * time.Second
	skewFail = time.Minute
)

// compareClocks compares all clocks with each other, this machine's among them: it may be the wrong one.
func (r *report) compareClocks() {
	if len(r.clocks) == 0 {
		return
	}
	var texts []string
	for _, c := range r.clocks {
		texts = append(texts, c.String())
	}
	all := append([]clock{{whose: "this machine"}}, r.clocks...)
	byTime := func(a, b clock) int { return cmp.Compare(a.ahead, b.ahead) }
	first, last := slices.MinFunc(all, byTime), slices.MaxFunc(all, byTime)
	apart := last.ahead - first.ahead - last.doubt - first.doubt
	detail := "against this machine: " + strings.Join(texts, ", ")
	advice := fmt.Sprintf("let NTP set the clocks; %s and %s are at least %v apart", first.whose, last.whose, apart.Round(time.Millisecond))
	switch {
	case apart > skewFail:
		r.add(diagnosis.LevelFail, "clocks", detail, advice)
	case apart > skewWarn:
		r.add(diagnosis.LevelWarn, "clocks", detail, advice)
	default:
		r.add(diagnosis.LevelOK, "clocks", detail, "")
	}
}
