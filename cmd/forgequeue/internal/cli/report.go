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

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// report says what went wrong, for people: what was tried, the code, the reason,
// each field and limit, and the name of the request in the server's log.
func report(w io.Writer, colours bool, err error) {
	if errors.Is(err, errSaid) {
		return
	}
	mark := paint(colours, red, "forgequeue:")
	p, ok := problem.From(err)
	if stranger, told := errors.AsType[*strangerError](err); told {
		fmt.Fprintf(w, "%s %s: %s (%d)\n", mark, visible(stranger.Error()), problem.Unauthenticated, http.StatusUnauthorized)
		if ok && p.RequestID != "" {
			fmt.Fprintln(w, "  "+visible("request id: "+p.RequestID))
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
	fmt.Fprintf(w, "%s %s was refused: %s (%d)\n", mark, visible(what), visible(string(p.Code)), p.Status)
	line := func(format string, args ...any) { fmt.Fprintln(w, "  "+visible(fmt.Sprintf(format, args...))) }
	if p.Detail != "" {
		line("%s", p.Detail)
	}
	for _, field := range p.Errors {
		if field.Field+": "+field.Message == p.Detail {
			continue // a single field is the detail already
		}
		line("%s: %s", field.Field, field.Message)
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

// noAnswer says that the server was not reached, or that its answer broke off.
func noAnswer(err error) bool {
	if client.Status(err) != 0 || errors.Is(err, context.Canceled) {
		return false
	}
	// A file's error passes for a network's: both end in a syscall.Errno.
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
