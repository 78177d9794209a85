package bridge

import (
	"context"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// DefaultType is the type of jobs whose message has none.
const DefaultType = "message"

const (
	// A submit that failed is repeated after a pause that doubles, and not before the server's Retry-After.
	leastRetry, mostRetry = 250 * time.Millisecond, 15 * time.Second
	mostAsked             = time.Minute
	// holdEvery is how often a message that waits is kept from others for longer.
	holdEvery = 5 * time.Minute
)

// outcome is what becomes of a message.
type outcome int

const (
	accepted outcome = iota
	refused
	stopped
)

// submit submits a message until it is accepted, refused for good, or ctx has ended.
func (b *Bridge) submit(ctx context.Context, from source, m *message) outcome {
	payload, ok := payloadOf(m.body)
	if !ok {
		b.log.WarnContext(ctx, "a message is refused: its body is not UTF-8", "message", m.id)
		return refused
	}
	job := api.SubmitRequest{Type: b.typeOf(m), Queue: b.options.Queue, Payload: payload}
	key := client.WithIdempotencyKey(keyOf(m.id))
	var held time.Time
	for pause := leastRetry; ; pause = min(2*pause, mostRetry) {
		_, err := b.options.Client.Submit(ctx, job, key)
		switch {
		case err == nil:
			return accepted
		case ctx.Err() != nil:
			return stopped
		case forGood(err):
			b.log.WarnContext(ctx, "a message is refused", "message", m.id, "error", err)
			return refused
		}
		if held.IsZero() {
			b.log.WarnContext(ctx, "a message waits for the server", "message", m.id, "error", err)
		}
		if time.Since(held) > holdEvery {
			held = time.Now()
			if err := from.hold(ctx, m); err != nil {
				b.log.WarnContext(ctx, "the broker did not extend a message; it may come again", "message", m.id, "error", err)
			}
		}
		asked := min(client.RetryAfter(err), mostAsked)
		if wait.For(ctx, max(pause/2+rand.N(pause), asked)) != nil { //nolint:gosec // spreads requests, guards nothing
			return stopped
		}
	}
}

// forGood says that the server has refused the job itself, and would do so again. A key that it does not accept, a
// limit, and an answer that is not ForgeQueue's are no such refusals: they are of all messages, and somebody will change
// that.
func forGood(err error) bool {
	p, ok := problem.From(err)
	if !ok {
		return false
	}
	if slices.Contains([]problem.Code{problem.TooManyLanes, problem.IdempotencyInFlight}, p.Code) {
		return false
	}
	switch p.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// payloadOf is a body as a job's payload: JSON as it is, any other text as a JSON string.
func payloadOf(body []byte) (json.RawMessage, bool) {
	switch {
	case !utf8.Valid(body):
		return nil, false
	case json.Valid(body):
		return body, true
	}
	text, err := json.Marshal(string(body))
	return text, err == nil
}

// keyOf is a message's id as an Idempotency-Key. One that cannot be a key is hashed; a message without one gets a key
// that is drawn, and may become two jobs.
func keyOf(id string) string {
	switch {
	case id == "":
		return cryptorand.Text()
	case len(id) <= api.MaxIdempotencyKey && !strings.ContainsFunc(id, func(c rune) bool { return c <= 0x20 || c > 0x7e || c == '"' || c == '\\' }):
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (b *Bridge) typeOf(m *message) string {
	switch {
	case b.options.Type != "":
		return b.options.Type
	case api.ValidName(m.jobType):
		return m.jobType
	}
	return DefaultType
}
