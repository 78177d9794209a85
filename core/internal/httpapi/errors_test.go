package httpapi_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// What nobody foresaw is internal to the caller and whole in core's own log.
func TestAnUnknownErrorIsNotLeaked(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	f.Exec(`ALTER TABLE workers RENAME TO hunter2`)
	asked := calltest.Item(f.Tenant, api.WorkerRequest{WorkerID: "w1"})
	asked.RequestID, asked.CorrelationID = "request-17", "order-17"
	got := calltest.Ask[api.Worker](f, hop.RegisterWorker.Path, asked)[0]
	if p := got.Problem; p == nil || p.Code != problem.Internal || strings.Contains(p.Detail, "workers") {
		t.Errorf("%d %+v", got.Status, p)
	}
	if !f.Logged.Has(`relation \"workers\" does not exist`) {
		t.Errorf("the log does not have the cause: %s", f.Logged.String())
	}
	if !f.Logged.Has(`request_id=request-17 correlation_id=order-17`) {
		t.Errorf("the log does not say whose it is: %s", f.Logged.String())
	}
}
