package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Number writes n with thin spaces between thousands.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// Count is Number of what stopped counting where capped.
func Count(n int64, capped bool) string {
	if capped {
		return Number(n) + "+"
	}
	return Number(n)
}

// Decimal writes a rate: three digits that matter.
func Decimal(f float64) string {
	if f >= 100 {
		return Number(int64(math.Round(f)))
	}
	if f > 0 && f < 0.1 {
		return strconv.FormatFloat(f, 'f', max(1-int(math.Floor(math.Log10(f))), 2), 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// Bytes writes a size in one unit.
func Bytes(n int64) string {
	const step = 1000
	units := []string{"kB", "MB", "GB", "TB"}
	if n < step {
		return Number(n) + " bytes"
	}
	size := float64(n) / step
	for _, unit := range units[:len(units)-1] {
		if size < step {
			return strconv.FormatFloat(size, 'f', 1, 64) + " " + unit
		}
		size /= step
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + " " + units[len(units)-1]
}

// Duration writes a length of time in one or two units. A number and its unit stay on one line.
func Duration(d time.Duration) string {
	if d < 0 {
		d = -d
	}
	switch {
	case d < time.Millisecond:
		return "0\u00a0ms"
	case d < time.Second:
		return fmt.Sprintf("%d\u00a0ms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(math.Floor(d.Seconds()*10)/10, 'f', -1, 64) + "\u00a0s"
	case d < time.Minute:
		return fmt.Sprintf("%d\u00a0s", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 48*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
	return two(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
}

func two(large int, unit string, small int, smallUnit string) string {
	if small == 0 {
		return fmt.Sprintf("%d\u00a0%s", large, unit)
	}
	return fmt.Sprintf("%d\u00a0%s %d\u00a0%s", large, unit, small, smallUnit)
}

// Milliseconds is Duration of milliseconds.
func Milliseconds(ms int64) string { return Duration(time.Duration(ms) * time.Millisecond) }

// Relative says how far at lies from now. The script of the pages says it the same way.
func Relative(at, now time.Time) string {
	d := at.Sub(now)
	if d.Abs() < time.Second {
		return "now"
	}
	text := coarse(d.Abs())
	if d > 0 {
		return "in " + text
	}
	return text + " ago"
}

// coarse is one unit, so that a column of times is quiet.
func coarse(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d\u00a0s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d\u00a0min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d\u00a0h", int(d.Hours()))
	}
	return fmt.Sprintf("%d\u00a0d", int(d.Hours())/24)
}

// Label is a word of the API as people write it.
func Label(word string) string { return strings.ReplaceAll(strings.ToLower(word), "_", " ") }
