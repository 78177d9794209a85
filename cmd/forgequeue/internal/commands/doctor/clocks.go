package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/client"
)

// clock is how far another clock is ahead of this machine's, give or take doubt.
type clock struct {
	whose        string
	ahead, doubt time.Duration
}

// String tells no more digits than are known.
func (c clock) String() string {
	switch {
	case c.doubt < dateDoubt:
		return fmt.Sprintf("%s %+.3f s", c.whose, c.ahead.Seconds())
	case c.ahead.Abs() <= 2*c.doubt:
		return c.whose + " within 1 s"
	}
	return fmt.Sprintf("%s %+.0f s", c.whose, c.ahead.Seconds())
}

// dateDoubt is that of a Date header.
const dateDoubt = time.Second / 2

// gatewayClock reads the Date header, which has whole seconds: the client adds one.
func gatewayClock(c *client.Client) []clock {
	told, ok := c.ServerTime()
	if !ok {
		return nil
	}
	return []clock{{"the gateway", time.Until(told) - dateDoubt, dateDoubt}}
}

const (
	// skewWarn is where times in lists and flags begin to mislead, skewFail where
	// deadlines, expiries of keys and TLS go wrong.
	skewWarn = 2 * time.Second
	skewFail = time.Minute
)

// compareClocks judges each clock by this machine's, and all by each other: this
// machine may be the one that is wrong.
func (d *diagnosis) compareClocks() {
	if len(d.clocks) == 0 {
		return
	}
	all := append([]clock{{whose: "this machine"}}, d.clocks...)
	first, last := all[0], all[0]
	var texts []string
	for _, c := range all {
		if c.ahead < first.ahead {
			first = c
		}
		if c.ahead > last.ahead {
			last = c
		}
		if c.whose != all[0].whose {
			texts = append(texts, c.String())
		}
	}
	apart := last.ahead - first.ahead - last.doubt - first.doubt
	detail := "against this machine: " + strings.Join(texts, ", ")
	advice := fmt.Sprintf("let NTP set the clocks; %s and %s are at least %v apart", first.whose, last.whose, apart.Round(time.Millisecond))
	switch {
	case apart > skewFail:
		d.add(levelFail, "clocks", detail, advice)
	case apart > skewWarn:
		d.add(levelWarn, "clocks", detail, advice)
	default:
		d.add(levelOK, "clocks", detail, "")
	}
}
