package app_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/brokers/kafka"
	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A core that was built without the broker of a stored queue does not start: its jobs would wait, and nobody would know.
func TestAStoredQueueNeedsABrokerThatThisProgramLacks(t *testing.T) {
	t.Parallel()
	url := celltest.URL(t)
	store := celltest.OpenURL(t, url)
	owner := uuid.Must(uuid.NewV7())
	if _, err := store.Tenants.Create(t.Context(), owner, api.TenantRequest{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	d := enginetest.NewCore(engine.Options{Store: store, Metrics: metrics.NewJobs(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler)})
	request := api.QueueRequest{Mode: new(api.ModePush), Push: &api.PushRequest{URL: "kafka+tls://example.com/mail"}}
	if _, _, err := d.PutPushQueue(t.Context(), owner, "mails", request, queues.NewSecret{Sealed: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	cfg := config(t, url)
	cfg.PushKey = "0123456789012345678901234567890123456789"
	cfg.Brokers = []app.Broker{rabbitmq.Protocol()}
	err := app.Run(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), `"mails"`) || !strings.Contains(err.Error(), "without Kafka") {
		t.Errorf("Run = %v", err)
	}
	cfg = config(t, url)
	cfg.PushKey = "0123456789012345678901234567890123456789"
	cfg.Brokers = []app.Broker{rabbitmq.Protocol(), kafka.Protocol()}
	start(t, cfg)
}
