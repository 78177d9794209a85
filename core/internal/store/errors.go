package store

import "errors"

// Errors that a caller may act on. Anything else is an internal fault.
var (
	// ErrNotFound: no such thing for this tenant; another tenant's and unknown are the same.
	ErrNotFound = errors.New("store: not found")
	// ErrOverloaded: refused before anything was done; try again later.
	ErrOverloaded = errors.New("store: overloaded")
	// ErrUnavailable: PostgreSQL cannot be reached; nothing was done.
	ErrUnavailable = errors.New("store: database unavailable")
	// ErrOutcomeUnknown: the connection was lost before PostgreSQL's answer came.
	ErrOutcomeUnknown = errors.New("store: outcome unknown")
)
