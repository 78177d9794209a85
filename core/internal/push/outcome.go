package push

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/forgequeue/forgequeue/shared/api"
)

// answer is the result of one call: a status, or a failure without one.
type answer struct {
	status int
	header http.Header
	// body is the part of the answer's body that was read, at most api.MaxPushAnswer and a byte.
	body    []byte
	failure *failure
	// confirmed says that a broker has the message; there is no status then.
	confirmed bool
	// arrived is when the answer arrived, by this machine's clock.
	arrived time.Time
}

// failure is the reason why there is no answer.
type failure struct {
	// kind is the type of the job's error, message a sentence without addresses.
	kind, message string
	// retry says that a quick try may help.
	retry bool
	// detail is what the destination said about it. healthy says that the destination works, permanent that no repeat
	// can help.
	detail             string
	healthy, permanent bool
}

// verdict is the effect of an answer on the attempt.
type verdict struct {
	// word is the kind of outcome in metrics and the log.
	word string
	// kind is the API's kind of outcome.
	kind      string
	result    []byte
	err       *api.JobError
	permanent bool
	delay     time.Duration
	deferral  time.Duration
	// failing says that the call counts as a failure of the destination.
	failing bool
	// retry says that a quick try may help.
	retry bool
}

// Kinds of outcome in metrics and the log.
const (
	wordCompleted = "completed"
	wordPublished = "published"
	wordFailed    = "failed"
	wordPermanent = "permanent"
	wordSnoozed   = "snoozed"
	wordProbe     = "probe_failed"
	wordCancelled = "cancelled"
	wordLost      = "lost"
	wordGivenBack = "given_back"
)

// judge maps an answer to its verdict: the table of api-docs/push.md.
func judge(a *answer) verdict {
	if f := a.failure; f != nil {
		word := wordFailed
		if f.permanent {
			word = wordPermanent
		}
		return verdict{
			word: word, kind: api.KindFail, failing: !f.healthy, retry: f.retry, permanent: f.permanent,
			err: &api.JobError{Type: f.kind, Message: f.message, Stack: strings.ReplaceAll(text([]byte(f.detail)), "\x00", "")},
		}
	}
	switch {
	case a.confirmed:
		return verdict{word: wordCompleted, kind: api.KindComplete}
	case a.status >= 200 && a.status <= 299:
		return verdict{word: wordCompleted, kind: api.KindComplete, result: resultOf(a.body)}
	case a.status == http.StatusGone || a.status == http.StatusUnprocessableEntity:
		return verdict{word: wordPermanent, kind: api.KindFail, permanent: true, err: statusError(a)}
	case a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable:
		return verdict{
			word: wordSnoozed, kind: api.KindSnooze, failing: true, err: statusError(a),
			delay: retryAfter(a), deferral: api.MaxDeferral,
		}
	}
	return verdict{
		word: wordFailed, kind: api.KindFail, err: statusError(a),
		// other refusals (4xx) and redirects are answers of a healthy destination
		failing: a.status >= 500 || a.status == http.StatusRequestTimeout,
		retry:   a.status == http.StatusBadGateway || a.status == http.StatusGatewayTimeout,
	}
}

// handedOver is the verdict on a job whose consumer ends it: its lease is left to run.
func handedOver(t *target, response *answer) bool {
	return response.confirmed && t.settings.Target.Settle == api.SettleWorker
}

// statusError is the error of a status. The body is in the stack: in the message it would give
// errors of one cause different fingerprints.
func statusError(a *answer) *api.JobError {
	return &api.JobError{
		Type:    "http_" + strconv.Itoa(a.status),
		Message: strings.TrimSpace(fmt.Sprintf("the destination answered %d %s", a.status, http.StatusText(a.status))),
		Stack:   cut(strings.ReplaceAll(text(a.body), "\x00", ""), api.MaxErrorMessage),
	}
}

// resultOf is an answer's body as a job's result: JSON unchanged, any other text as a JSON string,
// a body that is too long as a cut string; an empty one is null. JSON is what the gateway accepts
// in a worker's result: no deeper than api.MaxDepth, and by the parser without duplicate members
// and lone surrogates.
func resultOf(body []byte) []byte {
	trimmed := strings.TrimSpace(string(body))
	switch {
	case trimmed == "":
		return nil
	case len(body) <= api.MaxPushAnswer && !api.TooDeep(body) && jsontext.Value(body).IsValid():
		return []byte(trimmed)
	}
	encoded, err := json.Marshal(cut(text(body), api.MaxPushAnswer))
	if err != nil {
		return nil // a string can always be encoded
	}
	return encoded
}

func text(body []byte) string { return strings.ToValidUTF8(string(body), "\uFFFD") }

// cut shortens a text to at most n bytes, at a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// retryAfter reads Retry-After: seconds, or a date by the answer's own Date if present (RFC 9110,
// section 10.2.3). 0 is none, or an invalid one.
func retryAfter(a *answer) time.Duration {
	value := strings.TrimSpace(a.header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(api.MaxDeferral/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now := a.arrived
	if date, err := http.ParseTime(a.header.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), api.MaxDeferral)
}
