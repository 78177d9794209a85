package push

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// bodyOf is the job as sent to its destination: as a worker gets it, without the lease. Of a webhook's delivery
// it is the event.
func bodyOf(claimed *claim.Job) ([]byte, error) {
	if _, ok := api.WebhookOfQueue(claimed.Queue); ok {
		return claimed.Payload, nil
	}
	wire := claimed.Wire()
	body, err := json.Marshal(api.PushedJob{
		ID: wire.ID, User: wire.User, Type: wire.Type, Queue: wire.Queue, Payload: wire.Payload, Priority: wire.Priority,
		Attempt: wire.Attempt, MaxAttempts: wire.MaxAttempts, Epoch: wire.Epoch, Deadline: wire.Deadline,
		TimeoutMS: wire.TimeoutMS, Tags: wire.Tags, Metadata: wire.Metadata,
		CorrelationID: wire.CorrelationID, Traceparent: wire.Traceparent, CreatedAt: wire.CreatedAt,
	})
	if err != nil {
		return nil, fmt.Errorf("push: body: %w", err)
	}
	return body, nil
}

// newRequest makes a signed request (Standard Webhooks 1.0: the signature is over id, time and
// body). The id is the job's: every try of a job is the same message.
func newRequest(ctx context.Context, t *target, claimed *claim.Job, body []byte, now time.Time) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("push: request: %w", err)
	}
	id := claimed.ID.String()
	signature, err := t.sign(id, now, body)
	if err != nil {
		return nil, fmt.Errorf("push: sign: %w", err)
	}
	r.Header.Set(headerID, id)
	r.Header.Set(headerTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(headerSignature, signature)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/plain;q=0.9, */*;q=0.1")
	r.Header.Set("User-Agent", "ForgeQueue")
	r.Header.Set(api.HeaderPushJobID, id)
	r.Header.Set(api.HeaderPushAttempt, strconv.Itoa(int(claimed.Attempt)))
	r.Header.Set(api.HeaderPushEpoch, strconv.FormatInt(claimed.Epoch, 10))
	if claimed.Traceparent != nil {
		r.Header.Set("Traceparent", *claimed.Traceparent)
	}
	if claimed.CorrelationID != nil {
		r.Header.Set(api.HeaderCorrelationID, *claimed.CorrelationID)
	}
	return r, nil
}
