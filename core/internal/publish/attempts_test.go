package publish_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Each attempt that ends has one log line, for each way to end it, with what finds
// the job and its submit, and nothing of what the tenant put into them.
func TestEachAttemptHasALine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: 5 * time.Second}, Attempts: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	var log bytes.Buffer // flushes of outcomes are serialised, and End waits for them
	f.D = f.NewCoreWith(engine.Options{Store: store, Logger: slog.New(slog.NewJSONHandler(&log, nil))})

	kinds := []string{api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease, "lease_expired"}
	for _, kind := range kinds {
		call := f.Call(api.SubmitRequest{Type: kind, Payload: json.RawMessage(`"secret"`)})
		call.CorrelationID, call.Traceparent = "order-"+kind, parentA
		f.Accepted(f.D.Submit(t.Context(), []submits.Call{call})...)
	}
	found, err := f.D.Claim(t.Context(), claims.Call{Owner: f.Tenant, WorkerID: "w", Queues: []string{api.DefaultQueue}, Max: 10})
	if err != nil || len(found) != len(kinds) {
		t.Fatalf("claimed %d, %v", len(found), err)
	}
	ids := map[string]string{}
	for i := range found {
		kind := found[i].Type
		ids[kind] = found[i].ID.String()
		if kind == "lease_expired" {
			continue
		}
		ending := jobs.Ending{Lease: found[i].Lease(), Kind: kind, Delay: time.Minute, Error: &api.JobError{Type: "secret", Message: "secret"}}
		for range 2 { // a repeat gets the same answer, and is no second attempt
			if ended := f.D.End(t.Context(), []jobs.Ending{ending})[0]; ended.Err != nil {
				t.Fatal(ended.Err)
			}
		}
	}
	f.Exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 minute' WHERE state = 'running'`)
	reaped, err := store.Jobs.Reap(t.Context(), time.Now().Add(-time.Hour), 10, func() float64 { return 0 })
	if err != nil || len(reaped) != 1 {
		t.Fatalf("reaped %d, %v", len(reaped), err)
	}
	f.D.Publish(t.Context(), publish.Changes{Jobs: reaped})

	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log has what the tenant put in: %s", log.String())
	}
	var seen []string
	for line := range strings.Lines(log.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record["msg"] != "attempt" {
			continue
		}
		kind, _ := record["type"].(string)
		seen = append(seen, kind)
		if record["outcome"] != kind || record["job"] != ids[kind] || record["correlation_id"] != "order-"+kind || record["tenant"] != f.Tenant.String() ||
			record["attempt"] != 1.0 || record["epoch"] != 1.0 || record["queue"] != api.DefaultQueue || record["state"] == "" ||
			record["trace_id"] != strings.Repeat("a", 32) {
			t.Errorf("the line of %s: %s", kind, line)
		}
	}
	if len(seen) != len(kinds) {
		t.Errorf("lines of %v, want one of each of %v", seen, kinds)
	}
}
