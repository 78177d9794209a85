package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// report writes an error for people: the operation, the problem's code, detail, fields and limits, and the
// request id, which finds the request in the server's log. A field has the command's flag that sets it.
func report(w io.Writer, colours bool, command *cobra.Command, err error) {
	if errors.Is(err, ErrReported) {
		return
	}
	mark := paint(colours, Red, "forgequeue:")
	if more, ok := errors.AsType[*hintError](err); ok {
		defer fmt.Fprintln(w, "  "+Visible(more.hint))
	}
	p, ok := problem.From(err)
	if unknown, told := errors.AsType[*unknownKeyError](err); told {
		fmt.Fprintf(w, "%s %s: %s (%d)\n", mark, Visible(unknown.Error()), problem.Unauthenticated, http.StatusUnauthorized)
		if ok && p.RequestID != "" {
			fmt.Fprintln(w, "  "+Visible("request id: "+p.RequestID))
		}
		return
	}
	if !ok {
		fmt.Fprintf(w, "%s %s\n", mark, strings.TrimRight(visibleLines(err.Error()), "\n"))
		return
	}
	what := strings.TrimSuffix(strings.TrimSuffix(err.Error(), p.Error()), ": ")
	if what == err.Error() || what == "" {
		what = "the request"
	}
	fmt.Fprintf(w, "%s %s was refused: %s (%d)\n", mark, Visible(what), Visible(string(p.Code)), p.Status)
	line := func(format string, args ...any) { fmt.Fprintln(w, "  "+Visible(fmt.Sprintf(format, args...))) }
	// The detail may be that of a single field.
	if p.Detail != "" && (len(p.Errors) != 1 || p.Errors[0].Field+": "+p.Errors[0].Message != p.Detail) {
		line("%s", p.Detail)
	}
	for _, field := range p.Errors {
		text := field.Field + ": " + field.Message
		if flag := fieldFlag(command, field.Field); flag != "" {
			text += " (" + flag + ")"
		}
		line("%s", text)
	}
	for _, policy := range p.Policies {
		line("limit %s: %d of %d", policy.Name, policy.Current, policy.Limit)
	}
	if p.RetryAfterMS != nil {
		line("try again in %v", (time.Duration(*p.RetryAfterMS) * time.Millisecond).Round(time.Millisecond))
	}
	if p.RequestID != "" {
		line("request id: %s", p.RequestID)
	}
}

// NoAnswer reports whether the server was not reached, or its answer broke off.
func NoAnswer(err error) bool {
	if client.Status(err) != 0 || errors.Is(err, context.Canceled) {
		return false
	}
	// A syscall.Errno is a net.Error too, so a file's error would look like the network's.
	_, known := errors.AsType[*exitError](err)
	if _, file := errors.AsType[*os.PathError](err); known || file {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		strings.Contains(err.Error(), "no answer within")
}

// explain adds the server to the error of a call that got no answer, and where the key is from to that of an unknown
// key.
func explain(ctx context.Context, to target, err error) error {
	switch {
	case err == nil || Interrupted(ctx):
		return err
	case client.Status(err) == http.StatusUnauthorized:
		return &unknownKeyError{to.keyFrom, to.url, err}
	case NoAnswer(err):
		return &unreachableError{to.url, to.urlFrom, err}
	}
	return err
}

// unreachableError is a call of the API that got no answer.
type unreachableError struct {
	server, from string
	err          error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("%v\n  Is the server at %s up? %s says where it is; `forgequeue up` starts one here.", e.err, e.server, e.from)
}

func (e *unreachableError) Unwrap() error { return e.err }

// unknownKeyError is the answer 401: the server does not know the key.
type unknownKeyError struct {
	variable, server string
	err              error
}

// UnknownKey is the error of an answer 401 to the key of a variable.
func UnknownKey(variable, server string, err error) error {
	return &unknownKeyError{variable, server, err}
}

func (e *unknownKeyError) Error() string {
	return fmt.Sprintf("%s is not a key of %s: mistyped, revoked, expired, or of another installation", e.variable, e.server)
}

func (e *unknownKeyError) Unwrap() error { return e.err }
