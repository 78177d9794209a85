package store

import (
	"errors"
	"fmt"

	"github.com/forgequeue/forgequeue/shared/server/batch"
)

// WaitError maps the errors of a caller that has left or was refused. Any other error is the flush's
// own.
func WaitError(err error) error {
	switch {
	case errors.Is(err, batch.ErrFull), errors.Is(err, batch.ErrLeft):
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	case errors.Is(err, batch.ErrUnknown):
		// Why the caller left is no more than a text: that the database does not answer, which would say that
		// nothing was changed, is true of the caller, and not of the flush.
		return fmt.Errorf("%w: %s", ErrOutcomeUnknown, err.Error())
	}
	return err
}
