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
)

// exitError is an error that knows the exit code it ends the program with.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage is a command line that cannot be understood.
func usage(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// Environment marks a failure of the machine or its settings, not of the program.
func Environment(err error) error { return &exitError{ExitEnvironment, err} }

// errSaid ends the program with ExitFailed where the output has told everything.
var errSaid = errors.New("see above")

// exitCode is what a command's error ends the program with. No answer at all, or a
// key that nobody knows, is the environment's: FORGEQUEUE_URL and
// FORGEQUEUE_API_KEY are.
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

// unreachableError is a call of the API that got no answer.
type unreachableError struct {
	server string
	err    error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("%v\n  Is the server at %s up? FORGEQUEUE_URL says where it is; `forgequeue up` starts one here.", e.err, e.server)
}

func (e *unreachableError) Unwrap() error { return e.err }

// strangerError is an answer to a key that the server does not know.
type strangerError struct {
	variable, server string
	err              error
}

func (e *strangerError) Error() string {
	return fmt.Sprintf("%s is not a key of %s: mistyped, revoked, expired, or of another installation", e.variable, e.server)
}

func (e *strangerError) Unwrap() error { return e.err }

// interrupted says that the user, and not the server, ended the call.
func interrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }
