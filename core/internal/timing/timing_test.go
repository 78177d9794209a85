package timing_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/timing"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// The second implementation reads an expression into sets, and walks through all instants of ten
// years in steps, looking at what a clock on the wall shows: what is shown for the first time may
// tick; what was passed over ticks at the end of the gap; what was shown before does not.

// sets are the values of each field, seconds first.
type sets [6][60]bool

func readSets(t testing.TB, text string) (fields sets, eitherDay bool) {
	t.Helper()
	texts := strings.Fields(text)
	if len(texts) == 5 {
		texts = append([]string{"0"}, texts...)
	}
	low, high := [6]int{0, 0, 0, 1, 1, 0}, [6]int{59, 59, 23, 31, 12, 6}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, field := range texts {
		for part := range strings.SplitSeq(field, ",") {
			span, step, stepped := strings.Cut(part, "/")
			from, to := low[i], high[i]
			if first, last, ranged := strings.Cut(span, "-"); ranged {
				from, to = number(first), number(last)
			} else if span != "*" {
				from = number(span)
				if !stepped {
					to = from
				}
			}
			by := 1
			if stepped {
				by = number(step)
			}
			for n := from; n <= to; n += by {
				fields[i][n] = true
			}
		}
	}
	// as crontab(5) has it: a field that begins with * restricts nothing by itself
	restricted := func(field string) bool { return !strings.HasPrefix(field, "*") }
	return fields, restricted(texts[3]) && restricted(texts[5])
}

// onDay says whether a day has ticks at all, hours apart.
func (s *sets) onDay(wall time.Time, eitherDay bool) bool {
	_, month, dayOfMonth := wall.Date()
	day, weekday := s[3][dayOfMonth], s[5][wall.Weekday()]
	return s[4][month] && (day && weekday || eitherDay && (day || weekday))
}

// walk gives the ticks of some expressions between two instants. No zone's clock changes inside a
// quarter of an hour.
func walk(t testing.TB, zone *time.Location, from, to time.Time, step time.Duration, texts []string) [][]time.Time {
	t.Helper()
	all := make([]sets, len(texts))
	either := make([]bool, len(texts))
	for i, text := range texts {
		all[i], either[i] = readSets(t, text)
	}
	found := make([][]time.Time, len(texts))
	add := func(i int, at time.Time) {
		if n := len(found[i]); n == 0 || !found[i][n-1].Equal(at) {
			found[i] = append(found[i], at)
		}
	}
	const none = math.MinInt64
	seconds, offset := int64(step/time.Second), int64(0)
	shown, hour := int64(none), int64(none) // the latest second on the wall, and the hour that inHour is of
	var inHour []int                        // the expressions with ticks in that hour
	for at := from.Unix(); at <= to.Unix(); at += seconds {
		if at%900 == 0 || shown == none {
			_, zoneOffset := time.Unix(at, 0).In(zone).Zone()
			offset = int64(zoneOffset)
		}
		wall := at + offset
		if shown == none {
			shown = wall - seconds
		}
		for shown < wall {
			shown += seconds
			if shown/3600 != hour {
				hour, inHour = shown/3600, inHour[:0]
				day := time.Unix(shown, 0).UTC()
				for i := range all {
					if all[i][2][day.Hour()] && all[i].onDay(day, either[i]) {
						inHour = append(inHour, i)
					}
				}
			}
			for _, i := range inHour {
				if all[i][0][shown%60] && all[i][1][shown/60%60] {
					add(i, time.Unix(at, 0))
				}
			}
		}
	}
	return found
}

func zones(t testing.TB) []*time.Location {
	t.Helper()
	var loaded []*time.Location
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		loaded = append(loaded, zone)
	}
	return loaded
}

func times(t testing.TB, text string, zone *time.Location) *timing.Ticks {
	t.Helper()
	read, err := timing.New(&api.ScheduleRequest{Cron: &text, Timezone: zone.String()}, time.Time{})
	if err != nil {
		t.Fatal(text, err)
	}
	return read
}

// compare holds a times to the ticks of the second implementation: all of them in order, and at
// random instants forwards and backwards.
func compare(t *testing.T, text string, zone *time.Location, from, to time.Time, want []time.Time) {
	t.Helper()
	// Of one that ticks every few minutes the first one or two years are enough: they have the changes.
	const most = 50_000
	if len(want) > most {
		want = want[:most]
		to = want[most-1]
	}
	read := times(t, text, zone)
	at := from.Add(-1)
	for i := 0; ; i++ {
		next, ok := read.Next(at)
		if !ok || next.After(to) {
			if i != len(want) {
				t.Errorf("%s in %s: %d ticks, want %d; the next would be %s", text, zone, i, len(want), want[i])
			}
			break
		}
		if i == len(want) || !next.Equal(want[i]) {
			t.Errorf("%s in %s: tick %d after %s is %s, want %v", text, zone, i, at, next, want[min(i, len(want)):min(i+1, len(want))])
			return
		}
		at = next
	}
	for range 200 {
		one := from.Add(time.Duration(rand.Int64N(int64(to.Sub(from)))))
		if len(want) > 0 && rand.IntN(2) == 0 {
			one = want[rand.IntN(len(want))].Add(time.Duration(rand.IntN(3)-1) * time.Nanosecond)
		}
		place, _ := slices.BinarySearchFunc(want, one, time.Time.Compare)
		after := place
		if place < len(want) && want[place].Equal(one) {
			after++
		}
		if next, ok := read.Next(one); after < len(want) && (!ok || !next.Equal(want[after])) {
			t.Errorf("%s in %s: after %s comes %s, want %s", text, zone, one, next, want[after])
		}
		newest := read.Newest(from, one, 5)
		if before := want[max(after-5, 0):after]; !slices.EqualFunc(newest, before, time.Time.Equal) {
			t.Errorf("%s in %s: the newest until %s are %v, want %v", text, zone, one, newest, before)
		}
	}
}

// Ten years in six zones: the same ticks as the second implementation's.
func TestTicksOfTenYears(t *testing.T) {
	t.Parallel()
	texts := []string{
		"*/15 * * * *", "30 2 * * *", "0 0 * * *", "30 1 * * 0", "15,45 1-3 * * *", "0 3 1 * *", "59 23 31 12 *", "0 12 29 2 *",
		"10 2 13 * 5", "5 */6 * 3,10 *", "*/7 0-2 1-7 * *", "45 1 * 4,10 0",
	}
	for range 3 {
		texts = append(texts, randomCron())
	}
	from, to := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, zone := range zones(t) {
		t.Run(zone.String(), func(t *testing.T) {
			t.Parallel()
			for i, want := range walk(t, zone, from, to, time.Minute, texts) {
				compare(t, texts[i], zone, from, to, want)
			}
		})
	}
}

// Every pair of forms of the two fields for days: which restricts, and whether either day is enough.
func TestEveryPairOfDayFields(t *testing.T) {
	t.Parallel()
	days := []string{"*", "*/2", "*/1", "*,5", "1-31/2", "1-31", "1-7", "13", "5,*"}
	weekdays := []string{"*", "*/2", "*/1", "*,1", "0-6", "1-5/2", "1", "1,*"}
	var texts []string
	for _, day := range days {
		for _, weekday := range weekdays {
			texts = append(texts, "0 0 "+day+" * "+weekday)
		}
	}
	from, to := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, want := range walk(t, time.UTC, from, to, time.Minute, texts) {
		compare(t, texts[i], time.UTC, from, to, want)
	}
}

// With seconds, for the days around each change of clocks.
func TestTicksInSeconds(t *testing.T) {
	t.Parallel()
	texts := []string{"* * * * * *", "*/20 59 1,2 * * *", "30 30 2 * * *", "0 0 0 * * *", "1-59/7 */10 0-3 * * *"}
	for _, zone := range zones(t) {
		t.Run(zone.String(), func(t *testing.T) {
			t.Parallel()
			at := time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC).In(zone)
			for range 3 {
				_, until := at.ZoneBounds()
				if until.IsZero() {
					until = at.Add(time.Hour)
				}
				from, to := until.Add(-3*time.Hour).UTC(), until.Add(3*time.Hour).UTC()
				for i, want := range walk(t, zone, from, to, time.Second, texts) {
					compare(t, texts[i], zone, from, to, want)
				}
				at = until.Add(time.Hour)
			}
		})
	}
}

func randomCron() string {
	field := func(low, high int) string {
		switch rand.IntN(4) {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("%d", low+rand.IntN(high-low+1))
		case 2:
			first := low + rand.IntN(high-low+1)
			return fmt.Sprintf("%d-%d", first, first+rand.IntN(high-first+1))
		}
		return fmt.Sprintf("*/%d", 2+rand.IntN(high/2))
	}
	return field(0, 59) + " " + field(0, 3) + " " + field(1, 28) + " " + field(1, 12) + " " + field(0, 6)
}

// What the two implementations agree on, in plain figures.
func TestChangesOfClocks(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, cron, zone, after string
		want                    []string
	}{
		{"a gap: once at its end", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"all of a gap: once", "*/15 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"}},
		{"repeated: the first time", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"from inside the second round", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", []string{"2026-10-26T01:30:00Z"}},
		{"every minute waits for the second round", "* * * * *", "Europe/Berlin", "2026-10-25T00:59:00Z", []string{"2026-10-25T02:00:00Z"}},
		{"half an hour, gap", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		{"half an hour, repeated", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", []string{"2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"}},
		{"a midnight that is not there", "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"a day that is not there", "0 12 * * *", "Pacific/Apia", "2011-12-29T23:00:00Z", []string{"2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(one.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, one.after)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range one.want {
				next, _ := times(t, one.cron, zone).Next(at)
				if got := next.Format(time.RFC3339); got != want {
					t.Fatalf("after %s comes %s, want %s", at, got, want)
				}
				at = next
			}
		})
	}
}

// Intervals count in elapsed time: a change of clocks is nothing to them.
func TestIntervals(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 10, 25, 0, 30, 0, 5000, time.UTC)
	start := api.At(made.Add(20 * time.Minute))
	for _, one := range []struct {
		name   string
		starts *api.Time
		after  time.Time
		want   time.Duration // after made
	}{
		{"from when it was made", nil, made, 30 * time.Minute},
		{"between two", nil, made.Add(31 * time.Minute), time.Hour},
		{"on a tick", nil, made.Add(30 * time.Minute), time.Hour},
		{"the first is the start", &start, made, 20 * time.Minute},
		{"from the start", &start, made.Add(20 * time.Minute), 50 * time.Minute},
	} {
		every := (30 * time.Minute).Milliseconds()
		read, err := timing.New(&api.ScheduleRequest{EveryMS: &every, StartsAt: one.starts, Timezone: "Europe/Berlin"}, made)
		if err != nil {
			t.Fatal(err)
		}
		if next, ok := read.Next(one.after); !ok || next.Sub(made) != one.want {
			t.Errorf("%s: %s, want %s", one.name, next.Sub(made), one.want)
		}
	}
}

// No tick lies before the start or after the end; both are inclusive.
func TestStartAndEnd(t *testing.T) {
	t.Parallel()
	hourly := "@hourly"
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	starts, ends := api.At(from.Add(5*time.Hour)), api.At(from.Add(7*time.Hour))
	read, err := timing.New(&api.ScheduleRequest{Cron: &hourly, StartsAt: &starts, EndsAt: &ends, Timezone: "UTC"}, from)
	if err != nil {
		t.Fatal(err)
	}
	var got []time.Duration
	for at := from; ; {
		next, ok := read.Next(at)
		if !ok {
			break
		}
		got, at = append(got, next.Sub(from)), next
	}
	if want := []time.Duration{5 * time.Hour, 6 * time.Hour, 7 * time.Hour}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if newest := read.Newest(from, from.Add(24*time.Hour), 10); len(newest) != 3 {
		t.Errorf("backwards: %v", newest)
	}
}

// The check refuses all that the parser does: its own words, which name functions of Go, are never an answer.
func TestTheParserReadsWhatIsChecked(t *testing.T) {
	t.Parallel()
	entries := strings.Fields("* ? 0 1 5 7 12 23 31 59 60 05 +5 -5 5-1 1-5 mon THU Jan dec-jan mon-fri */2 */7 */70 5/3 1-5/2 1-5/9 7-7/2 L W H # x 1e1 0x1 9999999999999999999 , / -")
	random := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 50_000 {
		fields := make([]string, 5+random.IntN(2))
		for i := range fields {
			for fields[i] = entries[random.IntN(len(entries))]; random.IntN(4) == 0; {
				fields[i] += "," + entries[random.IntN(len(entries))]
			}
			if random.IntN(2) == 0 {
				fields[i] = "*"
			}
		}
		text := strings.Join(fields, " ")
		switch _, err := timing.New(&api.ScheduleRequest{Cron: &text, Timezone: "UTC"}, time.Time{}); {
		case err == nil:
			read++
		case strings.Contains(err.Error(), "cannot be read"):
			t.Errorf("%q: %v", text, err)
		}
	}
	if read < 1000 {
		t.Errorf("%d expressions were read", read)
	}
	t.Logf("%d expressions were read", read)
}

func TestWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ cron, zone, field, says string }{
		{"0 0 30 2 *", "UTC", "cron", "never comes"},
		{"0 0 31 2,4,6,9,11 *", "UTC", "cron", "never comes"},
		{"* * * *", "UTC", "cron", "must have five fields (minute, hour, day of the month, month, day of the week), or six with seconds in front; it has 4"},
		{"* * * * * * *", "UTC", "cron", "it has 7"},
		{" ", "UTC", "cron", "it has 0"},
		{"61 * * * *", "UTC", "cron", `has "61" as its minute: a value is a number from 0 to 59`},
		{"0 24 * * *", "UTC", "cron", `has "24" as its hour: a value is a number from 0 to 23`},
		{"0 0 0 * *", "UTC", "cron", `has "0" as its day of the month: a value is a number from 1 to 31`},
		{"0 0 * 13 *", "UTC", "cron", `has "13" as its month: a value is a number from 1 to 12, or a name such as feb`},
		{"0 0 * * monday", "UTC", "cron", `has "monday" as its day of the week: a value is a number from 0 to 7, or a name such as mon`},
		{"0 5-1 * * *", "UTC", "cron", `has "5-1" as its hour: a range goes up; write 5-23,0-1`},
		{"* * * * fri-mon", "UTC", "cron", `a range goes up; write fri-7,0-mon`},
		{"+5 * * * *", "UTC", "cron", `has "+5" as its minute: a value is a number from 0 to 59`},
		{"-5 * * * *", "UTC", "cron", `has "-5" as its minute: a value`},
		{"5- * * * *", "UTC", "cron", `has "5-" as its minute: a value`},
		{"1-2-3 * * * *", "UTC", "cron", `has "1-2-3" as its minute: a value`},
		{"*-5 * * * *", "UTC", "cron", `has "*-5" as its minute: a value`},
		{"0 1,2,,3 * * *", "UTC", "cron", `has "1,2,,3" as its hour: an entry is empty`},
		{", * * * *", "UTC", "cron", `has "," as its minute: an entry is empty`},
		{"/5 * * * *", "UTC", "cron", `has "/5" as its minute: an entry is empty`},
		{"*/0 * * * *", "UTC", "cron", `has "*/0" as its minute: a step is a number from 1 to 59 here`},
		{"*/60 * * * *", "UTC", "cron", `a step is a number from 1 to 59 here`},
		{"50/20 * * * *", "UTC", "cron", `a step is a number from 1 to 9 here`},
		{"*/+5 * * * *", "UTC", "cron", `a step is a number`},
		{"*/5/5 * * * *", "UTC", "cron", `a step is a number`},
		{"*/ * * * *", "UTC", "cron", `a step is a number`},
		{"99999999999999999999 * * * *", "UTC", "cron", `a value is a number from 0 to 59`},
		{"0 0 L * *", "UTC", "cron", `has "L" as its day of the month: a value`},
		{"H * * * *", "UTC", "cron", `has "H" as its minute: a value`},
		{"0 0 * * fri#3", "UTC", "cron", `has "fri#3" as its day of the week: a value`},
		{"@reboot", "UTC", "cron", "is not a known name; use @yearly"},
		{"@every 5s", "UTC", "cron", "every_ms"},
		{"TZ=Europe/Berlin * * * * *", "UTC", "cron", "timezone"},
		{"CRON_TZ=Europe/Berlin * * * * *", "UTC", "cron", "timezone"},
		{"* * * * *", "Europe/Atlantis", "timezone", "IANA"},
		{"* * * * *", "Local", "timezone", "IANA"},
		{"* * * * *", "localtime", "timezone", "IANA"},
		{"* * * * *", "right/Europe/Berlin", "timezone", "IANA"},
		{"* * * * *", "../etc/passwd", "timezone", "IANA"},
	} {
		_, err := timing.New(&api.ScheduleRequest{Cron: &one.cron, Timezone: one.zone}, time.Time{})
		p, ok := problem.From(err)
		if !ok || p.Code != problem.InvalidRequest || len(p.Errors) != 1 || p.Errors[0].Field != one.field || !strings.Contains(p.Errors[0].Message, one.says) {
			t.Errorf("%q in %q: %v", one.cron, one.zone, err)
		}
	}
}
