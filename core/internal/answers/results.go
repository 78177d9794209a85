package answers

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Guard turns a panic into an item's error. It is for items with a goroutine of their own: the
// middleware does not recover there, and the panic would end the process.
func Guard[Req, T any](ctx context.Context, item *hop.Item[Req], into *hop.Result[T]) {
	if failure := recover(); failure != nil { //nolint:revive // its callers defer it
		*into = Result[Req, T](ctx, item, nil, fmt.Errorf("an item panicked: %v\n%s", failure, debug.Stack()))
	}
}

// Result is the result of one item. A log line of it names the gateway's request: the
// gateway's log has the rest.
func Result[Req, T any](ctx context.Context, item *hop.Item[Req], value *T, err error) hop.Result[T] {
	if err != nil {
		p := Problem(ctx, err, "request_id", item.RequestID, "correlation_id", item.CorrelationID)
		return hop.Result[T]{Status: p.Status, Problem: p}
	}
	return hop.Result[T]{Status: http.StatusOK, Value: value}
}
