package doctor

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/diagnosis"
)

// clock is how far another clock is ahead of this machine's, give or take uncertainty.
type clock struct {
	whose              string
	ahead, uncertainty time.Duration
}

// String has no more digits than are certain.
func (c clock) String() string {
	switch {
	case c.uncertainty < dateError:
		return fmt.Sprintf("%s %+.3f s", c.whose, c.ahead.Seconds())
	case c.ahead.Abs() <= 2*c.uncertainty:
		return c.whose + " within 1 s"
	}
	return fmt.Sprintf("%s %+.0f s", c.whose, c.ahead.Seconds())
}

// dateError is the error of a Date header: it has whole seconds.
const dateError = time.Second / 2

// dates is a transport that keeps the Date header of the last answer.
type dates struct {
	http.RoundTripper

	last time.Time
}

func (d *dates) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.RoundTripper.RoundTrip(request)
	if err == nil {
		d.last, _ = http.ParseTime(response.Header.Get("Date")) // zero without one
	}
	return response, err
}

// clock is the clock of the Date header that has just come; none without one. It has whole seconds.
func (d *dates) clock() []clock {
	if d.last.IsZero() {
		return nil
	}
	return []clock{{"the gateway", time.Until(d.last) + dateError, dateError}}
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
	skew := last.ahead - first.ahead - last.uncertainty - first.uncertainty
	detail := "against this machine: " + strings.Join(texts, ", ")
	advice := fmt.Sprintf("let NTP set the clocks; %s and %s are at least %v apart", first.whose, last.whose, skew.Round(time.Millisecond))
	switch {
	case skew > skewFail:
		r.add(diagnosis.LevelFail, "clocks", detail, advice)
	case skew > skewWarn:
		r.add(diagnosis.LevelWarn, "clocks", detail, advice)
	default:
		r.add(diagnosis.LevelOK, "clocks", detail, "")
	}
}
