package schedule

import "errors"

// Errors that a caller may act on, besides those of package store.
var (
	// ErrTooManySchedules: the tenant has reached the bound.
	ErrTooManySchedules = errors.New("schedule: too many schedules")
	// ErrChanged: the schedule was changed too often while it was read.
	ErrChanged = errors.New("schedule: changed meanwhile")
)
