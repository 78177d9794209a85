package store

import "errors"

// What can go wrong that a caller may act on. Anything else is a fault of ours.
var (
	// ErrNotFound: no such thing for this tenant; foreign and unknown are the same.
	ErrNotFound = errors.New("store: not found")
	// ErrOverloaded: refused before anything was done; try again later.
	ErrOverloaded = errors.New("store: overloaded")
	// ErrUnavailable: PostgreSQL cannot be asked; nothing was done.
	ErrUnavailable = errors.New("store: database unavailable")
	// ErrOutcomeUnknown: the connection was lost before PostgreSQL's answer came.
	ErrOutcomeUnknown = errors.New("store: outcome unknown")
)
