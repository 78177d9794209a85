package admission

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
	"github.com/forgequeue/forgequeue/shared/server/redisurl"
)

// What /readyz says of Redis.
const (
	CheckOK            = "ok"
	CheckDown          = "down"
	CheckNotConfigured = "not configured"
)

// pingLife is for how long the answer to a ping is repeated.
const pingLife = time.Second

// Redis is the gateway's connection to Redis, or to none: everything works
// without it, only slower or for each gateway separately.
type Redis struct {
	client *redisclient.Client // nil where none is configured
	budget time.Duration       // of a limiter on it, and of a ping
	traced bool                // calls make spans

	mu      sync.Mutex // held during a ping: concurrent callers share one
	checked time.Time
	check   string
}

// Connect makes the client; it does not dial yet. An empty URL is no Redis. Package
// redisurl has the forms of others.
func Connect(url string) (*Redis, error) { return ConnectWithin(url, bucket.Budget) }

// ConnectWithin is Connect with a time that a request waits for Redis other than
// the usual 50 ms.
func ConnectWithin(url string, budget time.Duration) (*Redis, error) {
	if url == "" {
		return &Redis{budget: budget}, nil
	}
	client, err := bucket.Dial(url, budget)
	if err != nil {
		return nil, err
	}
	return &Redis{client: client, budget: budget}, nil
}

// CheckURL says what is wrong with a URL, without repeating a password; nil for an empty
// one.
func CheckURL(url string) error {
	if url == "" {
		return nil
	}
	_, err := redisurl.Parse(url)
	return err
}

// Close ends the connections.
func (r *Redis) Close() error {
	if r.client == nil {
		return nil
	}
	return r.client.Close()
}

// Check is the state of Redis: ok, down or not configured. It is cached for a
// second, so that frequent calls cost nothing.
func (r *Redis) Check(ctx context.Context) string {
	if r.client == nil {
		return CheckNotConfigured
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < pingLife {
		return r.check
	}
	// A caller that leaves must not make Redis appear down to the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.budget)
	defer cancel()
	r.check = CheckOK
	if err := r.client.Ping(ctx); err != nil {
		r.check = CheckDown
	}
	r.checked = time.Now()
	return r.check
}

// Trace makes each call of Redis a span of the request that it is for. Calls for no
// request (probes, hints, pings) make none. A nil provider changes nothing. It must
// be called before the first call.
func (r *Redis) Trace(provider trace.TracerProvider) error {
	if provider == nil || r.client == nil {
		return nil
	}
	r.traced = true
	return r.client.Trace(provider)
}
