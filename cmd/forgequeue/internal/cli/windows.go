package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Windows reads windows, each a cron expression, how long it lasts, and the zone if it is not UTC: "0 22 * * * 8h Europe/Berlin".
func Windows(flag string, texts []string) ([]api.Window, error) {
	windows := make([]api.Window, len(texts))
	for i, text := range texts {
		fields := strings.Fields(text)
		zone := ""
		if last := len(fields) - 1; last > 0 {
			if _, err := time.ParseDuration(fields[last]); err != nil {
				zone, fields = fields[last], fields[:last]
			}
		}
		last := len(fields) - 1
		if last < 1 {
			return nil, fmt.Errorf(`--%s %q: must be a cron expression, a duration and perhaps a time zone, such as "0 22 * * * 8h Europe/Berlin"`, flag, text)
		}
		lasts, err := time.ParseDuration(fields[last])
		if err != nil {
			return nil, fmt.Errorf(`--%s %q: %q is not a duration such as 8h or 30m`, flag, text, fields[last])
		}
		windows[i] = api.Window{Cron: strings.Join(fields[:last], " "), DurationMS: lasts.Milliseconds(), Timezone: zone}
	}
	return windows, nil
}

// WindowTexts are windows as Windows reads them.
func WindowTexts(windows []api.Window) []string {
	texts := make([]string, len(windows))
	for i, one := range windows {
		texts[i] = strings.TrimSpace(one.Cron + " " + shortDuration(one.DurationMS) + " " + one.Timezone)
	}
	return texts
}

// shortDuration is a duration without the minutes and seconds that are 0.
func shortDuration(ms int64) string {
	text := (time.Duration(ms) * time.Millisecond).String()
	if short, cut := strings.CutSuffix(text, "m0s"); cut {
		text = short + "m"
	}
	if short, cut := strings.CutSuffix(text, "h0m"); cut {
		text = short + "h"
	}
	return text
}
