package coreclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Call asks core for one item's result. The deadline is ctx's, and core is told
// of it. The error is a *problem.Problem where core refused the call as a whole,
// or wraps ErrUnavailable, ErrOutcomeUnknown, ErrRefusesUs or ErrContract. A
// refusal of the item itself is no error: it is in the Result.
//
// Each call is an envelope of its own. Many callers' items will share one here,
// behind the same signature of Call.
func Call[Req, Resp any](ctx context.Context, c *Client, op Op, item api.Item[Req]) (api.Result[Resp], error) {
	var none api.Result[Resp]
	body, err := encode(api.Envelope[Req]{Items: []api.Item[Req]{item}})
	if err != nil {
		return none, fmt.Errorf("encode %s: %w", op.path, err)
	}
	answer, doubt, err := c.exchange(ctx, op, body)
	if err != nil {
		return none, err
	}
	var results api.Results[Resp]
	if err := json.Unmarshal(answer, &results); err != nil || len(results.Results) != 1 {
		return none, fmt.Errorf("%w: %s with %d results: %w", op.lost(), op.path, len(results.Results), errors.Join(ErrContract, err))
	}
	result := results.Results[0]
	if result.Problem == nil && (result.Status < 200 || result.Status > 299) {
		return none, fmt.Errorf("%w: %s with status %d and no problem", ErrContract, op.path, result.Status)
	}
	if doubt && result.Problem != nil && result.Problem.Status == http.StatusServiceUnavailable {
		return none, fmt.Errorf("%w: %s: then %s", op.lost(), op.path, result.Problem.Code)
	}
	return result, nil
}

// encode leaves <, > and & as they are: a payload comes back as it was sent.
func encode(value any) ([]byte, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(body.Bytes(), "\n"), nil
}

// exchange sends the body, again where that is safe, and gives the body of a 200.
// doubt says that an earlier try was sent and got no answer: what the later one
// says of its own failure is not the whole story.
//
// A call is repeated at most once for each reason: core's clock differs; nothing
// of it reached core; its reply was lost but core knows it by its key.
func (c *Client) exchange(ctx context.Context, op Op, body []byte) (answer []byte, doubt bool, err error) {
	var clockLearned, repeated bool
	for {
		reply, sent, err := c.attempt(ctx, op.path, body)
		switch {
		case err != nil:
			// Once a try was sent and got no answer, a later one that fails or is
			// refused does not make it undone.
			doubt = doubt || sent
			if !repeated && ctx.Err() == nil && (!sent || op.effect == keyed) {
				repeated = true
				continue
			}
			if !doubt {
				return nil, doubt, fmt.Errorf("%w: %s: %w", ErrUnavailable, op.path, err)
			}
			return nil, doubt, fmt.Errorf("%w: %s: %w", op.lost(), op.path, err)
		case reply.status == http.StatusOK:
			return reply.body, doubt, nil
		case reply.status == http.StatusUnauthorized:
			if !clockLearned && c.learnClock(reply) {
				clockLearned = true
				continue
			}
			if doubt {
				return nil, doubt, fmt.Errorf("%w: %s: then %s", op.lost(), op.path, ErrRefusesUs.Error())
			}
			return nil, doubt, fmt.Errorf("%w (%s)", ErrRefusesUs, op.path)
		}
		if doubt {
			return nil, doubt, fmt.Errorf("%w: %s: then status %d", op.lost(), op.path, reply.status)
		}
		return nil, doubt, refusal(op, reply)
	}
}

// refusal is core's refusal of a whole call. What core says of its own state goes
// on to the caller; what it says of the call's form is a fault of ours.
func refusal(op Op, reply reply) error {
	var told problem.Problem
	err := json.Unmarshal(reply.body, &told)
	if err != nil || !problem.Known(told.Code) {
		// Not core's words: a proxy between us, perhaps, after core did the work.
		return fmt.Errorf("%w: %s: %w: status %d", op.lost(), op.path, ErrContract, reply.status)
	}
	switch reply.status {
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		p := problem.New(told.Code, told.Detail)
		p.RetryAfterMS = told.RetryAfterMS
		return p
	}
	return fmt.Errorf("%w: %s: %d %s: %s", ErrContract, op.path, reply.status, told.Code, told.Detail)
}
