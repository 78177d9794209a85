package api

import (
	"fmt"
	"time"
)

// Window is a recurring time, from each tick of a cron expression on.
type Window struct {
	// Cron says when it begins, as of a schedule.
	Cron string `json:"cron"`
	// DurationMS is how long it lasts, 1 minute to 7 days, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
	// Timezone is the IANA name of the zone of Cron; UTC, if absent.
	Timezone string `json:"timezone,omitzero"`
}

// Bounds of windows.
const (
	MaxWindows        = 8
	MinWindowDuration = time.Minute
	MaxWindowDuration = 7 * 24 * time.Hour
)

func (w *Window) rules(r refusals) {
	r.text("cron", &w.Cron, &cronText)
	r.millis("duration_ms", &w.DurationMS, MinWindowDuration, MaxWindowDuration)
	r.text("timezone", orNil(w.Timezone), &timezoneText)
}

// windows are those of a queue or a schedule.
func (r refusals) windows(list []Window) {
	r.items("windows", len(list), 0, MaxWindows, "")
	for i := range list {
		list[i].rules(r.in(fmt.Sprintf("windows[%d].", i)))
	}
}
