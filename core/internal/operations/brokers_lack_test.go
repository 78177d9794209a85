package operations_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A queue is refused whose broker the program was built without, not its first job.
func TestBrokersThatThisProgramLacks(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	f.Server.Operations.Targets.Brokers = broker.Protocols{rabbitmq.Protocol()}
	for url, name := range map[string]string{"kafka+tls://example.com/mail": "Kafka", "tls://example.com/mail": "NATS"} {
		got := f.Send(f.Request(t.Context(), hop.PutQueue.Path, calltest.Envelope(calltest.Item(f.Tenant, pushes(func(p *api.PushRequest) { p.URL = url })))))
		if !strings.Contains(string(got.Body), "push.url") || !strings.Contains(string(got.Body), "without "+name) {
			t.Errorf("%s: %s", url, got.Body)
		}
	}
	calltest.One[api.Queue](f, hop.PutQueue.Path, f.Tenant, pushes(func(p *api.PushRequest) { p.URL = "amqps://example.com/jobs/mail" }))
}
