package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A webhook is told that a queue has no worker, and later that it has one: one call each, over two cores that both look.
func TestAWebhookIsToldOfAState(t *testing.T) {
	t.Parallel()
	cluster := stack.SharedCluster(t)
	c := cluster.Client(t, cluster.NewTenant(t, "told").Key)
	endpoint := newHookEndpoint(t)
	made, err := c.PutWebhook(t.Context(), "states", api.WebhookRequest{
		URL: endpoint.URL, Events: []string{api.EventQueueUnserved, api.EventQueueRecovered},
		Thresholds: &api.Thresholds{QueueUnservedMS: new(int64(0)), EndedMS: new(api.MinEnded.Milliseconds())},
	})
	if err != nil || *made.Thresholds.QueueStalledMS != (5*time.Minute).Milliseconds() || *made.Thresholds.EndedMS != api.MinEnded.Milliseconds() {
		t.Fatalf("%+v, %v", made, err)
	}
	stack.Submit(t, c, api.SubmitRequest{Type: "t", Queue: "lonely"})
	begun := endpoint.await(t, api.EventQueueUnserved, 1)[0].event.Data.Alert
	if begun == nil || begun.State != api.EventQueueUnserved || begun.Of != api.AlertOfQueue || *begun.Name != "lonely" || begun.EndedAt != nil || !strings.Contains(begun.Detail, "type t") {
		t.Fatalf("%+v", begun)
	}
	job := stack.ClaimOne(t, c, "w", "lonely")
	if _, err := c.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	over := endpoint.await(t, api.EventQueueRecovered, 1)[0].event.Data.Alert
	if over == nil || over.State != api.EventQueueUnserved || !over.BeganAt.Equal(begun.BeganAt.Time) || over.EndedAt == nil || !over.EndedAt.After(begun.BeganAt.Time) {
		t.Errorf("%+v, began as %+v", over, begun)
	}
	if all := append(endpoint.got(api.EventQueueUnserved), endpoint.got(api.EventQueueRecovered)...); len(all) != 2 {
		t.Errorf("%d calls", len(all))
	}
}
