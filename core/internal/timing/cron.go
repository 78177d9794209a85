package timing

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// searchYears is how far the parser looks for a tick: two leap days may be eight years apart.
const searchYears = 9

// starBit marks a field that restricts nothing by itself, in the parser's sets of days.
const starBit = 1 << 63

// parseCron reads an expression: five fields, six with seconds in front, or a name. As crontab(5) has it, a day
// has to match both of its fields if one of them begins with *, otherwise either is enough.
func parseCron(text string) (*cron.SpecSchedule, error) {
	fields := cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom
	parser, err := cron.TryNewParser(fields)
	if err != nil {
		return nil, err
	}
	// in capitals the H of THU would be an option of the parser
	parsed, err := parser.WithMaxSearchYears(searchYears).Parse(strings.ToLower(text))
	if err != nil {
		return nil, errors.New("cannot be read: " + err.Error())
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("cannot be read")
	}
	markStars(text, spec)
	return spec, nil
}

// markStars marks the fields of days that begin with *. The parser marks those that are a whole *, as every other
// cron does for */2 too; and it marks a list that has a * in another place, such as 5,*.
func markStars(text string, spec *cron.SpecSchedule) {
	fields := strings.Fields(text)
	if len(fields) < len(cronFields())-1 {
		return // a name
	}
	mark := func(field string, days *uint64) {
		if *days &^= starBit; strings.HasPrefix(field, "*") || strings.HasPrefix(field, "?") {
			*days |= starBit
		}
	}
	mark(fields[len(fields)-3], &spec.Dom)
	mark(fields[len(fields)-1], &spec.Dow)
}

// cronField is a field of an expression.
type cronField struct {
	name        string
	least, most int
	// names are those of the numbers from least on; nil for none.
	names []string
}

func cronFields() []cronField {
	return []cronField{
		{"second", 0, 59, nil},
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day of the month", 1, 31, nil},
		{"month", 1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
		{"day of the week", 0, 7, strings.Fields("sun mon tue wed thu fri sat")},
	}
}

// checkCron refuses what the parser takes for something else than it looks like, or refuses in its own
// words: 5-1 wraps around, +5 is 5, in 1,,2 nothing is missing, and *-5 is *.
func checkCron(text string) error {
	switch {
	case strings.Contains(text, "TZ="):
		return errors.New("cannot have a time zone; use the field timezone")
	case strings.HasPrefix(text, "@every"):
		return errors.New("cannot be @every; use the field every_ms for an interval")
	case strings.HasPrefix(text, "@"):
		if !slices.Contains(strings.Fields("@yearly @annually @monthly @weekly @daily @midnight @hourly"), strings.ToLower(text)) {
			return errors.New("is not a known name; use @yearly, @monthly, @weekly, @daily or @hourly")
		}
		return nil
	}
	given, known := strings.Fields(text), cronFields()
	if len(given) != len(known)-1 && len(given) != len(known) {
		return fmt.Errorf("must have five fields (minute, hour, day of the month, month, day of the week), or six with seconds in front; it has %d", len(given))
	}
	for i, field := range known[len(known)-len(given):] {
		for entry := range strings.SplitSeq(given[i], ",") {
			if err := field.check(entry); err != nil {
				return fmt.Errorf("has %q as its %s: %w", given[i], field.name, err)
			}
		}
	}
	return nil
}

// check looks at an entry of the list that a field is.
func (f *cronField) check(entry string) error {
	span, step, stepped := strings.Cut(entry, "/")
	low, high := f.least, f.most
	switch span {
	case "":
		return errors.New("an entry is empty")
	case "*", "?":
	default:
		from, to, ranged := strings.Cut(span, "-")
		var err error
		if low, err = f.value(from); err != nil {
			return err
		}
		if !ranged && !stepped {
			high = low
		}
		if ranged {
			if high, err = f.value(to); err != nil {
				return err
			}
		}
		if low > high {
			return fmt.Errorf("a range goes up; write %s-%d,%d-%s", from, f.most, f.least, to)
		}
	}
	if n, ok := digits(step); stepped && (!ok || n < 1 || n > 1 && n > high-low) {
		return fmt.Errorf("a step is a number from 1 to %d here", max(high-low, 1))
	}
	return nil
}

func (f *cronField) value(text string) (int, error) {
	if place := slices.Index(f.names, strings.ToLower(text)); place >= 0 {
		return f.least + place, nil
	}
	n, ok := digits(text)
	if ok && n >= f.least && n <= f.most {
		return n, nil
	}
	orName := ""
	if f.names != nil {
		orName = ", or a name such as " + f.names[1]
	}
	return 0, fmt.Errorf("a value is a number from %d to %d%s", f.least, f.most, orName)
}

// digits reads a number that is nothing but digits.
func digits(text string) (int, bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// wallClock has a tick whenever the clock on a zone's wall matches, see zone.go.
type wallClock struct {
	spec *cron.SpecSchedule
	zone *time.Location
}

func (w wallClock) after(at time.Time) (time.Time, bool) {
	for wall := w.spec.Next(onWall(at, w.zone)); !wall.IsZero(); wall = w.spec.Next(wall) {
		if tick := atWall(wall, w.zone); tick.After(at) {
			return tick, true
		}
	}
	return time.Time{}, false
}

func (w wallClock) backwards(at time.Time, yield func(time.Time) bool) {
	var last time.Time
	// Prev is strictly before, in whole seconds.
	for wall := w.spec.Prev(onWall(at, w.zone).Truncate(time.Second).Add(time.Second)); !wall.IsZero(); wall = w.spec.Prev(wall) {
		tick := atWall(wall, w.zone)
		if tick.After(at) || tick.Equal(last) { // several walls of a gap have one instant
			continue
		}
		if last = tick; !yield(tick) {
			return
		}
	}
}

func invalid(field, format string, args ...any) *problem.Problem {
	return problem.Invalid(problem.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}
