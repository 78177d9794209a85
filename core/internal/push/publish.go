package push

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// publish sends a job to its broker, and waits for the confirm.
func (e *Executor) publish(ctx context.Context, a *attempt) (*answer, error) {
	m, err := newMessage(a, time.Now())
	if err != nil {
		return &answer{failure: &failure{kind: "internal", message: "the message could not be made"}}, errFailing
	}
	traced := propagation.MapCarrier{}
	endSpan := e.spanTo(ctx, a, traced, attribute.String("messaging.system", a.target.url.Scheme))
	for _, name := range slices.Sorted(maps.Keys(traced)) {
		m.set(name, traced[name])
	}
	response, err := published(ctx, e.brokers.Publish(ctx, a.target.broker, &m.Message))
	endSpan(response)
	if err == nil && judge(response).failing {
		err = errFailing
	}
	return response, err
}

// published is the answer of a broker.
func published(ctx context.Context, err error) (*answer, error) {
	var refusal *broker.RefusalError
	switch {
	case err == nil:
		return &answer{confirmed: true, arrived: time.Now()}, nil
	case errors.As(err, &refusal):
		return &answer{failure: &failure{
			kind: refusal.Kind, message: refusal.Message, detail: refusal.Detail,
			retry: refusal.Retry, healthy: refusal.Healthy, permanent: refusal.Permanent,
		}}, nil
	}
	return failed(ctx, err)
}

// message is one execution of a job as its broker gets it: the body and the headers of a call, and the lease token.
type message struct{ broker.Message }

func newMessage(a *attempt, now time.Time) (*message, error) {
	claimed := a.job
	id := claimed.ID.String()
	signature, err := a.target.sign(id, now, a.body)
	if err != nil {
		return nil, fmt.Errorf("push: sign: %w", err)
	}
	epoch := strconv.FormatInt(claimed.Epoch, 10)
	m := &message{broker.Message{
		ID: id, Delivery: id + "." + epoch, Once: id, Type: claimed.Type, CorrelationID: store.OrElse(claimed.CorrelationID, ""), Body: a.body,
	}}
	if a.target.settings.Target.Settle == api.SettleWorker { // the consumer of an earlier attempt may have failed
		m.Once = m.Delivery
	}
	m.set(headerID, id)
	m.set(headerTimestamp, strconv.FormatInt(now.Unix(), 10))
	m.set(headerSignature, signature)
	m.set("Content-Type", "application/json")
	m.set(api.HeaderPushJobID, id)
	m.set(api.HeaderPushAttempt, strconv.Itoa(int(claimed.Attempt)))
	m.set(api.HeaderPushEpoch, epoch)
	m.set(api.HeaderPushLeaseToken, claimed.Lease().Token())
	if claimed.Traceparent != nil {
		m.set("Traceparent", *claimed.Traceparent)
	}
	if claimed.CorrelationID != nil {
		m.set(api.HeaderCorrelationID, *claimed.CorrelationID)
	}
	return m, nil
}

// set sets a header; names are compared as HTTP does.
func (m *message) set(name, value string) {
	for i := range m.Headers {
		if strings.EqualFold(m.Headers[i].Name, name) {
			m.Headers[i].Value = value
			return
		}
	}
	m.Headers = append(m.Headers, broker.Header{Name: name, Value: value})
}
