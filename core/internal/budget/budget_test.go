package budget

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

func definitionOf(window, zone string) *Definition {
	return &Definition{Amount: 100, Window: &window, Timezone: zone}
}

// The windows of the calendar follow each other without a gap, over changes of the clock, and also where a day begins with an hour
// that there is not.
func TestWindowsFollowEachOther(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "Asia/Beirut", "Australia/Lord_Howe", "Pacific/Apia"} {
		for _, window := range []string{api.BudgetHour, api.BudgetDay, api.BudgetMonth} {
			d := definitionOf(window, zone)
			at := time.Date(2011, 12, 1, 0, 0, 0, 0, time.UTC) // Apia left out a day; São Paulo's clock changed at midnight
			for at.Year() < 2013 {
				begin, end := d.window(at)
				if begin.After(at) || !end.After(at) || !end.After(begin) {
					t.Fatalf("%s in %s at %v: from %v to %v", window, zone, at, begin, end)
				}
				if again, _ := d.window(begin); !again.Equal(begin) {
					t.Fatalf("%s in %s at its begin %v: from %v", window, zone, begin, again)
				}
				if next, _ := d.window(end); !next.Equal(end) {
					t.Fatalf("%s in %s that begins at %v ends at %v, and the next begins at %v", window, zone, begin, end, next)
				}
				at = at.Add(37 * time.Minute)
				if window != api.BudgetHour {
					at = at.Add(5 * time.Hour)
				}
			}
		}
	}
}

// The day on which the clock changes has 23 or 25 hours.
func TestADayOfTheClockChange(t *testing.T) {
	t.Parallel()
	for day, hours := range map[time.Time]float64{
		time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC): 23, time.Date(2026, 10, 25, 12, 0, 0, 0, time.UTC): 25, time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC): 24,
	} {
		begin, end := definitionOf(api.BudgetDay, "Europe/Berlin").window(day)
		if end.Sub(begin).Hours() != hours || begin.In(mustZone(t)).Hour() != 0 {
			t.Errorf("%v: from %v to %v", day, begin, end)
		}
	}
}

func mustZone(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// accountOf is one at a time, with nothing used.
func accountOf(d *Definition, now time.Time) *Account {
	return &Account{Definition: d, Now: now, day: dayOf(now), days: map[time.Time]sums{}}
}

// later is the account as it is read again after a while.
func (a *Account) later(after time.Duration) *Account {
	row := accountRow{Now: a.Now.Add(after), Definition: *a.Definition, Running: a.running, Day: &a.day, Reserved: a.sums.reserved, Used: a.sums.used}
	for _, one := range a.counted {
		row.Parts, row.Amounts = append(row.Parts, one.begin.Round(time.Microsecond)), append(row.Amounts, one.amount) // as PostgreSQL keeps it
	}
	return row.account(a.Ref)
}

// What was used is free again when the time is over, and at the latest one part of it later.
func TestWhatWasUsedIsFreeAgain(t *testing.T) {
	t.Parallel()
	d := &Definition{Amount: 60, PerMs: new(int64(60_000))}
	a := accountOf(d, time.Date(2026, 11, 28, 12, 0, 0, 500_000_000, time.UTC))
	a.Reserve(60)
	at, will := a.PaysAt(60)
	if left := at.Sub(a.Now); !will || left < time.Minute || left > time.Minute+time.Second {
		t.Errorf("it pays after %v, %v", left, will)
	}
	if got := a.later(time.Minute - time.Millisecond).Available(); got != 0 {
		t.Errorf("%d are available before", got)
	}
	if got := a.later(61 * time.Second).Available(); got != 60 {
		t.Errorf("%d are available after", got)
	}
	if _, will := a.PaysAt(61); will {
		t.Error("it pays more than it ever holds")
	}
}

// Parts of any length are found again.
func TestPartsAreFoundAgain(t *testing.T) {
	t.Parallel()
	for per := int64(1000); per < 100_000; per = per*3/2 + 7 {
		d := &Definition{Amount: 100, PerMs: &per, Burst: new(int64(37))}
		a := accountOf(d, time.Date(2026, 11, 28, 12, 0, 0, 123_456_000, time.UTC))
		a.Reserve(30)
		begun := a.Now
		if a = a.later(time.Millisecond); a.Available() != 7 {
			t.Errorf("per %d ms: %d are available", per, a.Available())
		}
		if a.settle(begun, 30, 10); a.Available() != 27 {
			t.Errorf("per %d ms: %d are available after a settlement", per, a.Available())
		}
	}
}

// A burst is a shorter time with a smaller amount.
func TestABurstIsAShorterTime(t *testing.T) {
	t.Parallel()
	d := &Definition{Amount: 60_000, PerMs: new(int64(60_000)), Burst: new(int64(1000))}
	a := accountOf(d, time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
	if a.Available() != 1000 {
		t.Errorf("%d are available", a.Available())
	}
	a.Reserve(1000)
	if at, _ := a.PaysAt(1000); at.Sub(a.Now) < time.Second || at.Sub(a.Now) > 1020*time.Millisecond {
		t.Errorf("it pays after %v", at.Sub(a.Now))
	}
}

// A settlement changes the part of the time in which the attempt started: after that time it changes nothing but sums.
func TestASettlementIsOfItsStart(t *testing.T) {
	t.Parallel()
	d := &Definition{Amount: 100, PerMs: new(int64(60_000))}
	begun := time.Date(2026, 11, 28, 23, 59, 30, 0, time.UTC)
	a := accountOf(d, begun)
	a.Reserve(80)
	a = a.later(2 * time.Minute)
	a.settle(begun, 80, 10)
	if a.Available() != 100 || a.running != 0 {
		t.Errorf("%d are available, %d reserved", a.Available(), a.running)
	}
	if got := a.days[dayOf(begun)]; got.reserved != 80 || got.used != 10 {
		t.Errorf("of the day before: %+v", got)
	}
	b := accountOf(d, begun)
	b.Reserve(80)
	b = b.later(30 * time.Second)
	b.Reserve(20)
	b.settle(begun, 80, 10)
	if b.Available() != 70 || b.later(40*time.Second).Available() != 80 {
		t.Errorf("%d are available, %d when the first part is over", b.Available(), b.later(40*time.Second).Available())
	}
	a.settle(begun, 0, 500)
	if got := a.days[dayOf(begun)]; got.overdrawn != 500 {
		t.Errorf("of the day before: %+v", got)
	}
}
