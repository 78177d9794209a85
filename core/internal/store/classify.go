package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/shared/server/batch"
)

// DeadlockTries is how often a statement is run that PostgreSQL rolled back to end a deadlock. All
// of ours lock in one order, except a flush in two rounds, and sessions that are not ours.
const DeadlockTries = 3

// Deadlocked says that PostgreSQL rolled a transaction back to end a deadlock: nothing took effect,
// and it may be run again.
func Deadlocked(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !errors.Is(err, ErrOutcomeUnknown) && (refused.Code == "40P01" || refused.Code == "40001")
}

// definite wraps an error of a statement inside a transaction that was then rolled back: nothing
// took effect.
func definite(err error) error {
	if err := Classify(err); !errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Classify maps an error of PostgreSQL: it refused (nothing took effect), it was never asked
// (nothing took effect), or the answer was lost, and whether it took effect is unknown.
func Classify(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrOverloaded) || errors.Is(err, ErrTenantMoved) {
		return err
	}
	// Before PgError, which a refused connection wraps: no such database, a wrong password.
	var connecting *pgconn.ConnectError
	if pgconn.SafeToRetry(err) || errors.As(err, &connecting) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classifyRefusal(refused, err)
	}
	if pgconn.Timeout(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || isConnectionLost(err) {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return err
}

// classifyCommit is Classify for COMMIT, where only PostgreSQL's own refusal is definite.
// pgconn.SafeToRetry is wrong here: where the answer to a simple query is lost it says "conn
// closed", safe to retry (pgx 5.12, MultiResultReader.NextResult drops the error of the read and
// then finds the connection closed).
func classifyCommit(err error) error {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return err // refused: an earlier statement had failed
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || strings.HasPrefix(refused.Code, "57P") { // a terminated session may have committed first
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return classifyRefusal(refused, err)
}

// classifyRefusal maps the refusals that are not caused by the statement. PostgreSQL rolled back in
// each case.
func classifyRefusal(refused *pgconn.PgError, err error) error {
	switch refused.Code {
	case "57P01", "57P02":
		// Shutdown or crash: these end a session at any point, also between the commit and its
		// answer.
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	case "08000", "08001", "08003", "08006", "08007":
		// Citus' coordinator could not reach the worker, or lost it: perhaps before the answer to a commit.
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	case "57P03", "57P05", // starting up, idle session ended
		"53300", "25P03", // too many connections, idle transaction ended
		"CIINF": // Citus: the schema was moved to another worker between two parts of the statement
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case readOnlyCode:
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrReadOnly, err)
	case "40001", "40P01", "55P03", "57014", // serialization, deadlock, lock_timeout, statement_timeout
		"53000", "53100", "53200", "53400": // out of disk, memory, or a configured limit
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	case TenantMovedCode:
		return fmt.Errorf("%w: %w", ErrTenantMoved, err)
	}
	return err
}

// NotApplied is for reads: a failed one is definite.
func NotApplied(err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// Away says why PostgreSQL cannot be used now, where waiting may help: it does not answer, it starts, or it takes no
// writes. It is "" for what waiting does not change, such as a wrong password.
func Away(err error) (reason string) {
	var resolving *net.DNSError
	older, replaced := errors.AsType[*WrongPrimaryError](err)
	refused, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrReadOnly):
		return "PostgreSQL takes no writes: the server is a standby, or read-only"
	case replaced && older.Reason == metrics.OldTimeline:
		return "the server was the primary before a failover, and the new one does not answer"
	case answered && slices.Contains([]string{"57P01", "57P02", "57P03"}, refused.Code):
		return "PostgreSQL starts or stops"
	case answered && refused.Code == "53300":
		return "PostgreSQL has no free connection"
	case replaced || answered:
		return ""
	case errors.As(err, &resolving):
		return "the name of PostgreSQL's host is not known"
	case pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) || isConnectionLost(err) || errors.Is(err, ErrOverloaded):
		return "PostgreSQL does not answer"
	}
	return ""
}

// LockTimedOut says that a lock was not free in time.
func LockTimedOut(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "55P03"
}

func isConnectionLost(err error) bool {
	var network *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &network) || strings.Contains(err.Error(), "conn closed")
}

// IsUnique says whether PostgreSQL refused a duplicate key.
func IsUnique(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "23505"
}

// Definite says whether err means for certain that nothing was stored, so that the requests of a
// flush may be tried one by one.
func Definite(err error) bool { return !errors.Is(err, ErrOutcomeUnknown) }

// WaitError maps the errors of a caller that has left or was refused. Any other error is the flush's own.
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
