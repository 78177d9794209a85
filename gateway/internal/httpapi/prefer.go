package httpapi

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
)

// patience reads Prefer: wait=n (RFC 7240, section 4.3). left is how much of it is
// left, counted from the request's arrival as the RFC has it; never below 0.
// applied is what Preference-Applied says, empty where nothing was asked for that
// can be honoured: the RFC has such a preference ignored.
func (c *call) patience() (left time.Duration, applied string) {
	seconds, ok := preferredWait(c.prefer)
	if !ok {
		return 0, ""
	}
	left = time.Duration(seconds)*time.Second - time.Since(c.began)
	return max(left, 0).Truncate(time.Millisecond), "wait=" + strconv.Itoa(seconds)
}

// preferredWait finds the first wait among the preferences, which may be spread
// over several headers; later ones do not count (RFC 7240, section 2). More than
// api.MaxWait is taken for it.
func preferredWait(headers []string) (seconds int, ok bool) {
	for preference := range elements(strings.Join(headers, ",")) {
		preference, _, _ = strings.Cut(preference, ";") // its parameters: wait has none
		name, value, _ := strings.Cut(preference, "=")
		if strings.EqualFold(trimSpace(name), "wait") {
			return deltaSeconds(trimSpace(value))
		}
	}
	return 0, false
}

// deltaSeconds reads digits and nothing else (RFC 9111, section 1.2.2).
func deltaSeconds(text string) (seconds int, ok bool) {
	const most = int(api.MaxWait / time.Second)
	n, err := strconv.ParseUint(text, 10, 32)
	if errors.Is(err, strconv.ErrRange) {
		return most, true
	}
	return int(min(n, uint64(most))), err == nil
}

// elements cuts a header's list at each comma that is not inside a quoted string.
func elements(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, quoted := 0, false
		for i := 0; i < len(text); i++ {
			switch b := text[i]; {
			case quoted && b == '\\':
				i++
			case b == '"':
				quoted = !quoted
			case b == ',' && !quoted:
				if !yield(text[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(text[start:])
	}
}

// trimSpace cuts HTTP's white space (RFC 9110, section 5.6.3), which is less than
// Unicode's.
func trimSpace(text string) string { return strings.Trim(text, " \t") }

// hold asks core to answer when a job has changed, or when wait is over: then
// with the job as it is. It fails with coreclient.ErrCutShort where this gateway
// waits no longer, and with auth.ErrUnauthenticated where the key is no longer good.
// Where there is no place to wait it waits a little here, and reads the job.
func (s *Server) hold(ctx context.Context, c *call, wait time.Duration, request api.HopWaitRequest) (api.Job, error) {
	c.wait, request.WaitMS = wait, wait.Milliseconds()
	ctx, release := s.whileKeyIsGood(ctx, c)
	defer release()
	answer, err := send[api.HopWaitRequest, api.Job](ctx, s, c, coreclient.Read(api.HopWait).Parked(), request)
	job := answer.value
	if errors.Is(err, coreclient.ErrNoPlace) {
		c.wait = 0
		shortWait(ctx, wait)
		job, err = s.read(ctx, c, request.JobID)
	}
	if cause := context.Cause(ctx); errors.Is(cause, auth.ErrUnauthenticated) {
		return api.Job{}, cause
	}
	return job, err
}

// ended says whether a state is an end.
func ended(state string) bool {
	return state == api.StateCompleted || state == api.StateDeadLetter || state == api.StateCancelled
}
