package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/client"
)

// Exit codes of every command.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitEnvironment = 3
	ExitTimedOut    = 4
	ExitDiffers     = 5
)

// exitError is an error that knows the exit code it ends the program with.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// Usage is the error of a wrong command line.
func Usage(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// Environment marks a failure of the machine or its settings, not of the program.
func Environment(err error) error { return &exitError{ExitEnvironment, err} }

// TimedOut marks the error of a wait that timed out.
func TimedOut(err error) error { return &exitError{ExitTimedOut, err} }

// IsTimedOut reports whether an error is of a wait that timed out.
func IsTimedOut(err error) bool {
	known, ok := errors.AsType[*exitError](err)
	return ok && known.code == ExitTimedOut
}

// ErrReported ends the program with ExitFailed and writes nothing: the output has the failure already.
var ErrReported = errors.New("see above")

// ErrDiffers ends a comparison that has found differences, and has written them.
var ErrDiffers error = &exitError{ExitDiffers, ErrReported}

// exitCode is the exit code of a command's error. No answer, or a key that the server does not know, is a wrong
// environment: FORGEQUEUE_URL and FORGEQUEUE_API_KEY are part of it.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if known, ok := errors.AsType[*exitError](err); ok {
		return known.code
	}
	if _, ok := errors.AsType[*unreachableError](err); ok || client.Status(err) == http.StatusUnauthorized {
		return ExitEnvironment
	}
	return ExitFailed
}

// Interrupted reports whether the user, and not the server, ended the call.
func Interrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// IsNotFound reports whether the server answered 404.
func IsNotFound(err error) bool { return client.Status(err) == http.StatusNotFound }

// hintError is an error with a line on what to do about it.
type hintError struct {
	error

	hint string
}

func (e *hintError) Unwrap() error { return e.error }

// WithHint adds a line to the report of an error.
func WithHint(err error, hint string) error { return &hintError{err, hint} }
