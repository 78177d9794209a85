package timing_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/timing"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func windowsOf(t *testing.T, list ...api.Window) *timing.Windows {
	t.Helper()
	windows, err := timing.NewWindows(list)
	if err != nil {
		t.Fatal(err)
	}
	return windows
}

func TestAWindowBeginsAtItsTickAndEndsAfterItsDuration(t *testing.T) {
	t.Parallel()
	night := api.Window{Cron: "0 22 * * *", DurationMS: (8 * time.Hour).Milliseconds(), Timezone: "Europe/Berlin"}
	saturday := api.Window{Cron: "0 6 * * 6", DurationMS: (16 * time.Hour).Milliseconds(), Timezone: "Europe/Berlin"}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 3, day, hour, minute, 0, 0, berlin) }
	for name, c := range map[string]struct {
		windows []api.Window
		at      time.Time
		until   time.Time // zero outside
	}{
		"before":               {[]api.Window{night}, at(10, 21, 59), time.Time{}},
		"at its begin":         {[]api.Window{night}, at(10, 22, 0), at(11, 6, 0)},
		"past midnight":        {[]api.Window{night}, at(11, 3, 0), at(11, 6, 0)},
		"at its end":           {[]api.Window{night}, at(11, 6, 0), time.Time{}},
		"two that touch":       {[]api.Window{night, saturday}, at(13, 23, 0), at(15, 6, 0)},
		"over a change of DST": {[]api.Window{night}, at(28, 23, 0), at(29, 7, 0)}, // an hour less on the wall, eight hours
		"none":                 {nil, at(10, 23, 0), time.Time{}},
	} {
		until, in := windowsOf(t, c.windows...).Until(c.at)
		if in != !c.until.IsZero() || in && !until.Equal(c.until) {
			t.Errorf("%s: %v until %v, want until %v", name, in, until.In(berlin), c.until)
		}
	}
}

// What is remembered of the last answer changes none, whichever way the clock goes.
func TestWindowsRememberNothingWrong(t *testing.T) {
	t.Parallel()
	list := []api.Window{{Cron: "*/7 * * * *", DurationMS: 60_000}, {Cron: "30 3 * * 1-5", DurationMS: 3600_000, Timezone: "America/New_York"}}
	remembers := windowsOf(t, list...)
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2026, 10, 30, 0, 0, 0, 0, time.UTC)
	for range 3000 {
		at = at.Add(time.Duration(random.Int64N(int64(20*time.Minute))) - 5*time.Minute)
		until, in := remembers.Until(at)
		_, want := windowsOf(t, list...).Until(at)
		if in != want || !until.After(at) {
			t.Fatalf("%v: %v until %v, want %v", at, in, until, want)
		}
		if _, before := windowsOf(t, list...).Until(until.Add(-1)); before != in {
			t.Fatalf("%v: not the same until %v", at, until)
		}
	}
}

func TestTheEndOfTheLastWindow(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	windows := windowsOf(t, api.Window{Cron: "0 1 * * *", DurationMS: time.Hour.Milliseconds()}, api.Window{Cron: "30 1 * * *", DurationMS: time.Hour.Milliseconds()})
	for at, want := range map[time.Duration]time.Duration{
		2*time.Hour + 30*time.Minute: 2*time.Hour + 30*time.Minute, 5 * time.Hour: 2*time.Hour + 30*time.Minute, 2 * time.Hour: 0, 0: -24*time.Hour + 2*time.Hour + 30*time.Minute,
	} {
		got := windows.Ended(day.Add(at), 24*time.Hour)
		if want == 0 && !got.IsZero() || want != 0 && !got.Equal(day.Add(want)) {
			t.Errorf("at %v: %v", at, got)
		}
	}
	if got := windows.Ended(day.Add(5*time.Hour), time.Hour); !got.IsZero() {
		t.Errorf("longer ago than is asked for: %v", got)
	}
	if got := windowsOf(t).Ended(day, time.Hour); !got.IsZero() {
		t.Errorf("without windows: %v", got)
	}
}

// A clock that was set back counts, though the process's own goes on.
func TestWindowsFollowTheClockOnTheWall(t *testing.T) {
	t.Parallel()
	now := time.Now() // with a reading of the process's clock
	hour := now.UTC().Truncate(time.Hour)
	windows := windowsOf(t, api.Window{Cron: fmt.Sprintf("0 %d * * *", hour.Hour()), DurationMS: (2 * time.Hour).Milliseconds()})
	if _, in := windows.Until(now); !in {
		t.Fatal("not in its window")
	}
	until, in := windows.Until(now)
	if _, text := until, until.String(); !in || strings.Contains(text, "m=") {
		t.Errorf("%v, %s", in, text)
	}
}

func TestWindowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		window api.Window
		field  string
	}{
		{api.Window{Cron: "nonsense", DurationMS: 60_000}, "windows[1].cron"},
		{api.Window{Cron: "0 0 30 2 *", DurationMS: 60_000}, "windows[1].cron"},
		{api.Window{Cron: "@daily", DurationMS: 60_000, Timezone: "Mars/Olympus"}, "windows[1].timezone"},
	} {
		_, err := timing.NewWindows([]api.Window{{Cron: "@daily", DurationMS: 60_000}, c.window})
		wrong, ok := problem.From(err)
		if !ok || len(wrong.Errors) != 1 || wrong.Errors[0].Field != c.field {
			t.Errorf("%+v: %v", c.window, err)
		}
	}
}
