package timing

import (
	"errors"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the zones, for machines that have none
)

// A wall is what a clock on the wall shows, as a time in UTC: cron expressions are read on walls,
// which know no daylight saving. onWall and atWall map instants and walls to each other. The order
// of walls and of their instants is the same, though several walls may have one instant:
//
//	gap:       01:59:59 ─ 03:00:00     02:30 is not shown; its instant is the gap's end
//	repeated:  02:59:59 ─ 02:00:00     02:30 is shown twice; its instant is the first

// zones has the zones that were loaded, some hundreds at most: each would be a file to read.
var zones sync.Map // of string to *time.Location

// loadZone finds a zone by its IANA name.
func loadZone(name string) (*time.Location, error) {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil //nolint:forcetypeassert // nothing else is stored
	}
	if !isZone(name) {
		return nil, errors.New("unknown time zone " + name)
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}

// isZone refuses names of files beside the zones: the machine's own zone, which differs between cores, and
// copies of the zones that count leap seconds.
func isZone(name string) bool {
	switch name {
	case "Local", "localtime", "posixrules", "Factory":
		return false
	}
	return !strings.HasPrefix(name, "posix/") && !strings.HasPrefix(name, "right/")
}

// wallOf is what a clock in the zone shows at an instant.
func wallOf(at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// onWall is the last wall whose instant is not after at. Inside the second round of a repeated hour
// that is the end of the first.
func onWall(at time.Time, zone *time.Location) time.Time {
	shown := wallOf(at, zone)
	since, _ := at.In(zone).ZoneBounds()
	if since.IsZero() {
		return shown
	}
	if ended := wallOf(since.Add(-1), zone); ended.After(shown) {
		return ended
	}
	return shown
}

// atWall is the instant of a wall.
func atWall(wall time.Time, zone *time.Location) time.Time {
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	since, until := at.ZoneBounds()
	switch shown := wallOf(at, zone); {
	case shown.After(wall): // in the gap before at's period
		return since.UTC()
	case shown.Before(wall): // in the gap after it
		return until.UTC()
	}
	if since.IsZero() {
		return at.UTC()
	}
	// If the clock showed it before at's period too, that was the first time.
	_, before := since.Add(-1).Zone()
	if earlier := wall.Add(-time.Duration(before) * time.Second); earlier.Before(since) && earlier.Before(at) {
		return earlier
	}
	return at.UTC()
}
