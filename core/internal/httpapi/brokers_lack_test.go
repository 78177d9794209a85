package httpapi_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A queue is refused whose broker the program was built without, not its first job.
func TestBrokersThatThisProgramLacks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.core.Brokers = broker.Protocols{rabbitmq.Protocol()}
	for url, name := range map[string]string{"kafka+tls://example.com/mail": "Kafka", "tls://example.com/mail": "NATS"} {
		got := f.send(f.request(t.Context(), hop.PutQueue.Path, envelope(item(f.tenant, pushes(func(p *api.PushRequest) { p.URL = url })))))
		if !strings.Contains(string(got.body), "push.url") || !strings.Contains(string(got.body), "without "+name) {
			t.Errorf("%s: %s", url, got.body)
		}
	}
	one[api.Queue](f, hop.PutQueue.Path, f.tenant, pushes(func(p *api.PushRequest) { p.URL = "amqps://example.com/jobs/mail" }))
}
