package schedule

import "errors"

// Errors that a caller may act on, besides those of package store.
var (
	// ErrTooManySchedules: the tenant has reached the bound.
	ErrTooManySchedules = errors.New("schedule: too many schedules")
	// ErrTooManyUserSchedules: those of the user that the key is bound to have reached half of it.
	ErrTooManyUserSchedules = errors.New("schedule: too many schedules of a user")
	// ErrChanged: the schedule was changed too often while it was read.
	ErrChanged = errors.New("schedule: changed meanwhile")
)
