package admission

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/forgequeue/forgequeue/shared/redisurl"
	"github.com/forgequeue/forgequeue/shared/resp"
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
	client redis.UniversalClient // nil where none is configured
	budget time.Duration         // of a limiter on it, and of a ping
	traced bool                  // calls make spans

	mu      sync.Mutex // held during a ping: concurrent callers share one
	checked time.Time
	check   string
}

// Connect makes the client; it does not dial yet. An empty URL is no Redis. Package
// redisurl has the forms of others.
func Connect(url string) (*Redis, error) { return ConnectWithin(url, redisBudget) }

// ConnectWithin is Connect with a time that a request waits for Redis other than
// the usual 50 ms.
func ConnectWithin(url string, budget time.Duration) (*Redis, error) {
	if url == "" {
		return &Redis{budget: budget}, nil
	}
	target, err := redisurl.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("redis url: %w", err)
	}
	options := limiterOptions()
	options.Addrs, options.IsClusterMode, options.MasterName, options.DB = target.Addrs, target.Cluster, target.Master, target.DB
	options.Username, options.Password, options.TLSConfig = target.Username, target.Password, target.TLS
	options.SentinelUsername, options.SentinelPassword = target.SentinelUsername, target.SentinelPassword
	if budget != redisBudget {
		options.DialTimeout, options.PoolTimeout = budget, budget
		options.ReadTimeout, options.WriteTimeout = budget, budget
	}
	options.Dialer = dialer(options)
	quieten()
	return &Redis{client: redis.NewUniversalClient(options), budget: budget}, nil
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

// limiterOptions are those of a limiter: a late answer is not used, and the
// library's defaults (seconds, with retries) would let a frozen Redis block every
// request.
func limiterOptions() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		ContextTimeoutEnabled:    true,
		DialTimeout:              150 * time.Millisecond,
		DialerRetries:            1,
		ReadTimeout:              50 * time.Millisecond,
		WriteTimeout:             50 * time.Millisecond,
		PoolTimeout:              25 * time.Millisecond,
		MaxRetries:               -1,
		DisableIdentity:          true, // older servers answer it with an error
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// dialer dials as the library would; replies are checked before the library reads
// them.
func dialer(options *redis.UniversalOptions) func(context.Context, string, string) (net.Conn, error) {
	dial := redis.NewDialer(&redis.Options{DialTimeout: options.DialTimeout, TLSConfig: options.TLSConfig})
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return resp.Checked(conn), nil
	}
}

// fenced runs a call of the library; it returns a panic as an error.
func fenced(call func() error) (err error) {
	defer func() {
		if failure := recover(); failure != nil {
			err = fmt.Errorf("redis client: panic: %v", failure)
		}
	}()
	return call()
}

// quieten keeps the library, which has one logger for the whole process, from
// writing to standard error while Redis is away: the limiter logs that once.
var quieten = sync.OnceFunc(func() { redis.SetLogger(debugLog{}) })

type debugLog struct{}

// Printf formats no text unless the level is enabled.
func (debugLog) Printf(ctx context.Context, format string, values ...any) {
	if logger := slog.Default(); logger.Enabled(ctx, slog.LevelDebug) {
		logger.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, values...))
	}
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
	if err := fenced(func() error { return r.client.Ping(ctx).Err() }); err != nil {
		r.check = CheckDown
	}
	r.checked = time.Now()
	return r.check
}
