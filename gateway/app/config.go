package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/console"
	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/mcp"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/server/httpserver"
	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/memory"
	"github.com/forgequeue/forgequeue/shared/server/seats"
	"github.com/forgequeue/forgequeue/shared/server/secret"
	"github.com/forgequeue/forgequeue/shared/server/settings"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// Config is all settings of the gateway. api-docs/config.md is written from the
// tags.
type Config struct {
	Listen         string        `env:"FORGEQUEUE_LISTEN"          envDefault:"127.0.0.1:8080"        doc:"Address of the public API, host:port. Default 127.0.0.1:8080."`
	MetricsListen  string        `env:"FORGEQUEUE_METRICS_LISTEN"  envDefault:"127.0.0.1:9090"        doc:"Address of /metrics, and for callers on this machine /debug/pprof, host:port; keep it private. Default 127.0.0.1:9090."`
	CoreURL        string        `env:"FORGEQUEUE_CORE_URL"        envDefault:"http://127.0.0.1:8081" doc:"URL of core's internal API, without path. Where there are several cells: a list of NAME=URL, comma-separated, the home cell first, such as home=http://core:8081/cells/home,second=http://core-2:8081/cells/second. Default http://127.0.0.1:8081."`
	RedisURL       secret.Text   `env:"REDIS_URL"                                                     doc:"Redis or Valkey, redis://, rediss:// or unix://; a cluster or Sentinel too, see operations.md. Optional: without it each gateway enforces the rates alone, at rate ÷ FORGEQUEUE_REPLICAS, and revoked keys and changed limits take effect within 30 s. Default none."`
	RedisTimeout   time.Duration `env:"FORGEQUEUE_REDIS_TIMEOUT"   envDefault:"50ms"                  doc:"How long a request waits for Redis before the gateway decides without it, a duration such as 50ms; use more if Redis is far away. 5ms to 10s. Default 50ms."`
	HopSecret      secret.Text   `env:"FORGEQUEUE_HOP_SECRET"                                         doc:"Signs the calls to core, at least 32 bytes, the same in gateway and core. Required; openssl rand -base64 32 makes one."`
	KeySecret      secret.Text   `env:"FORGEQUEUE_KEY_SECRET"                                         doc:"HMAC secret of API keys, at least 32 bytes, the same in every gateway; changing it makes all keys invalid. Required; openssl rand -base64 32 makes one."`
	OperatorKey    secret.Text   `env:"FORGEQUEUE_OPERATOR_KEY"                                       doc:"The credential for /v1/admin, at least 27 characters. Optional: without it these routes do not exist. Default none."`
	Console        string        `env:"FORGEQUEUE_CONSOLE"         envDefault:"on"                    doc:"on serves the web console at /console, off removes it. Default on."`
	ConsoleSecret  secret.Text   `env:"FORGEQUEUE_CONSOLE_SECRET"                                     doc:"Seals the console's sessions, at least 32 bytes, the same in every gateway. Optional: without it a secret is derived from FORGEQUEUE_KEY_SECRET. openssl rand -base64 32 makes one. Default none."`
	ConsoleOld     secret.Text   `env:"FORGEQUEUE_CONSOLE_SECRET_PREVIOUS"                            doc:"The old secret of the console, whose sessions are still accepted while the secret is being changed. Default none."`
	OIDCIssuer     string        `env:"FORGEQUEUE_OIDC_ISSUER"                                        doc:"URL of the provider of OpenID Connect at which people sign in to the console, as its tokens have it, such as https://id.example.com/realms/staff; http only on this machine. See console.md. Optional: without it people sign in with keys. Default none."`
	OIDCClient     string        `env:"FORGEQUEUE_OIDC_CLIENT_ID"                                     doc:"The console's client id at the provider. Its redirect URI is FORGEQUEUE_PUBLIC_URL, which is required then, and /console/oidc/callback. Required with FORGEQUEUE_OIDC_ISSUER. Default none."`
	OIDCSecret     secret.Text   `env:"FORGEQUEUE_OIDC_CLIENT_SECRET"                                 doc:"The client's secret at the provider. Optional: without it the client is a public one, which PKCE protects. Default none."`
	OIDCGroups     secret.Text   `env:"FORGEQUEUE_OIDC_GROUPS"                                        doc:"What groups of the provider may do, a JSON array such as [{\"group\": \"ops\", \"tenant\": \"01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002\", \"scopes\": [\"read\", \"manage\"]}]. It is no secret, but may be in a file. Required with FORGEQUEUE_OIDC_ISSUER. Default none."`
	OIDCClaim      string        `env:"FORGEQUEUE_OIDC_GROUPS_CLAIM" envDefault:"groups"              doc:"The claim of UserInfo or of the ID token that has a person's groups, a list or one text. Default groups."`
	OIDCCheck      time.Duration `env:"FORGEQUEUE_OIDC_CHECK_EVERY" envDefault:"60s"                  doc:"How often the groups of each open session are read again, a duration such as 60s: who has lost them is signed out so soon. 1s to 60s. Default 60s."`
	MCP            mcp.Mode      `env:"FORGEQUEUE_MCP"             envDefault:"off"                   doc:"Lets agents use the API at /mcp, by the Model Context Protocol, each with the rights of its API key: read offers tools that change nothing, write all tools, off removes it. Default off."`
	KeyEnv         string        `env:"FORGEQUEUE_KEY_ENV"         envDefault:"live"                  doc:"Label in API keys made by this gateway, fq_<label>_..., 1 to 16 characters of a-z and 0-9. Default live."`
	PublicURL      string        `env:"FORGEQUEUE_PUBLIC_URL"                                         doc:"How people reach this gateway from their browsers, such as https://jobs.example.com; the links of signals begin with it. Optional: without it they begin as the URL of the request that makes them. Default none."`
	LogFormat      string        `env:"FORGEQUEUE_LOG_FORMAT"      envDefault:"json"                  doc:"Format of the log on standard error, json or text. Default json."`
	LogLevel       string        `env:"FORGEQUEUE_LOG_LEVEL"       envDefault:"info"                  doc:"Lowest level that is logged: debug, info, warn or error. Default info."`
	Grace          time.Duration `env:"FORGEQUEUE_GRACE"           envDefault:"30s"                   doc:"How long requests in flight may take to end after SIGTERM, a duration such as 30s; a claim may wait for 25 s. 0s to 10m. Default 30s."`
	RequestTimeout time.Duration `env:"FORGEQUEUE_REQUEST_TIMEOUT" envDefault:"10s"                  doc:"How long core may take for a request, in addition to the wait that the caller asks for, a duration such as 10s. 100ms to 30s. Default 10s."`
	DrainNotice    time.Duration `env:"FORGEQUEUE_DRAIN_NOTICE"    envDefault:"0s"                    doc:"How long new requests are still accepted after SIGTERM while /readyz is 503, so that a load balancer notices it in time, a duration such as 5s. 0s to 5m. Default 0s."`
	HopInFlight    int           `env:"FORGEQUEUE_HOP_IN_FLIGHT"   envDefault:"1024"                  doc:"Maximum number of concurrent calls to core, without those that wait for jobs, 16 to 65536; lists may use half of them, and twice as many may wait. Default 1024."`
	HopParked      int           `env:"FORGEQUEUE_HOP_PARKED"      envDefault:"4096"                  doc:"Claims with wait_ms that may wait in core at once, and as many requests with Prefer: wait, 1 to 65536. Tenants share them; above its share a tenant's requests wait one second at most. Default 4096."`
	BreakerWindow  time.Duration `env:"FORGEQUEUE_BREAKER_WINDOW"  envDefault:"30s"                   doc:"Rolling window of the circuit breakers towards core: only calls within it count, a duration such as 30s. 1s to 10m, but at least twice FORGEQUEUE_REQUEST_TIMEOUT is used. Default 30s."`
	BreakerOpen    time.Duration `env:"FORGEQUEUE_BREAKER_OPEN"    envDefault:"500ms"                 doc:"How long a circuit breaker stays open before it lets test calls to core pass, a duration such as 2s. 100ms to 1m. Default 500ms."`
	Replicas       int           `env:"FORGEQUEUE_REPLICAS"        envDefault:"1"                     doc:"Number of gateways that share the rates while Redis is down. Used until the gateway has once read their number from Redis, 1 to 10000. Default 1."`
	BodyMemoryMiB  int64         `env:"FORGEQUEUE_BODY_MEMORY_MIB" envDefault:"0"                     doc:"Memory in MiB for the bodies of all requests in flight, each counted with four times its length, and for their answers above 64 KiB, counted with twice theirs until the client has read them, 8 to 1048576; one tenant may use a quarter of it, less while others use much. Above it requests return 503 overloaded. 0 means two fifths of GOMEMLIMIT or of the cgroup's limit, or 512. Default 0."`
	MaxConns       int           `env:"FORGEQUEUE_MAX_CONNECTIONS" envDefault:"0"                     doc:"Maximum number of open client connections, at most 1000000; above it an idle one is closed, or the new one. 0 means a third of ulimit -n less 128. Default 0."`
	AddressConns   int           `env:"FORGEQUEUE_MAX_CONNECTIONS_PER_ADDRESS" envDefault:"0"         doc:"How many of these connections one client address may have, at most 1000000; loopback and trusted proxies may have all. 0 means a quarter of FORGEQUEUE_MAX_CONNECTIONS. Default 0."`
	TrustedProxies []string      `env:"FORGEQUEUE_TRUSTED_PROXIES"                                    doc:"Networks of trusted proxies in CIDR notation, comma-separated, such as 10.0.0.0/8. FORGEQUEUE_PROXY_HEADER is read in requests from these networks only. Default none."`
	ProxyHeader    string        `env:"FORGEQUEUE_PROXY_HEADER"    envDefault:"X-Forwarded-For"       doc:"The header in which trusted proxies name a client's address: X-Forwarded-For or Forwarded. Requests of trusted proxies without a valid one share one address limit. Default X-Forwarded-For."`
	IPRate         float64       `env:"FORGEQUEUE_IP_RATE"         envDefault:"5000"                  doc:"Requests a second that one client address (IPv6: its /64) may send, checked before the API key; 0 means no limit, at most 1000000. Loopback, /livez and /readyz are never limited. Default 5000."`
	IPBurst        int           `env:"FORGEQUEUE_IP_BURST"        envDefault:"10000"                 doc:"Burst of FORGEQUEUE_IP_RATE: how many of these requests at once, 1 to 1000000. Default 10000."`
	FailedKeyRate  float64       `env:"FORGEQUEUE_FAILED_KEY_RATE" envDefault:"10"                    doc:"Invalid credentials a second that one client address may send. Above it they return 429; valid credentials still work. 0 means no limit, at most 1000000. Default 10."`
	FailedKeyBurst int           `env:"FORGEQUEUE_FAILED_KEY_BURST" envDefault:"200"                  doc:"Burst of FORGEQUEUE_FAILED_KEY_RATE: how many of these at once, 1 to 1000000. Default 200."`
	// Tracing says whether spans are made, and where they go.
	Tracing telemetry.Export

	// Listener and MetricsListener are used instead of listening, where given. Run
	// closes them.
	Listener        net.Listener `env:"-"`
	MetricsListener net.Listener `env:"-"`
	// Logger is used instead of one made from LogFormat and LogLevel, where given.
	Logger *slog.Logger `env:"-"`
	// Processors, where given, are the process's seats, which it shares with others in it.
	Processors *seats.Seats `env:"-"`
}

const (
	// minOperatorKey characters of base62 hold 160 bits.
	minOperatorKey    = 27
	maxGrace          = 10 * time.Minute
	minRequestTimeout = 100 * time.Millisecond
	maxRequestTimeout = 30 * time.Second
	maxDrainNotice    = 5 * time.Minute
	// minHopInFlight leaves each class of calls a share.
	minHopInFlight = 16
	maxHopCalls    = 1 << 16
	maxReplicas    = 10_000
	maxAddressRate = 1_000_000
	maxConnections = 1_000_000
	minBodyMemory  = 8
	maxBodyMemory  = 1 << 20
	consoleOn      = "on"
	consoleOff     = "off"
)

// FromEnv reads the process's environment. The error has every problem, not only
// the first.
func FromEnv() (Config, error) { return Parse(env.ToMap(os.Environ())) }

// Parse reads settings by the names of their environment variables; what is not
// given has its default, and a secret may be in a file that its NAME_FILE names. The
// error has every problem.
func Parse(environment map[string]string) (Config, error) {
	var cfg Config
	err := settings.Read(&cfg, environment)
	return cfg, errors.Join(err, cfg.check())
}

// check validates the settings together; the error names each that is wrong by its
// variable, and never shows a secret.
func (cfg Config) check() error {
	var problems []error
	wrong := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	const advice = "must have at least %d bytes; openssl rand -base64 32 makes one"
	wrong(cfg.Listener != nil || httpserver.ValidAddress(cfg.Listen), "FORGEQUEUE_LISTEN %q: must be host:port", cfg.Listen)
	wrong(cfg.MetricsListener != nil || httpserver.ValidAddress(cfg.MetricsListen), "FORGEQUEUE_METRICS_LISTEN %q: must be host:port", cfg.MetricsListen)
	urlErr := coreclient.CheckURL(cfg.CoreURL)
	wrong(urlErr == nil, "FORGEQUEUE_CORE_URL: %w", urlErr)
	wrong(len(cfg.HopSecret) >= identity.MinSecretBytes, "FORGEQUEUE_HOP_SECRET: "+advice, identity.MinSecretBytes)
	wrong(len(cfg.KeySecret) >= identity.MinSecretBytes, "FORGEQUEUE_KEY_SECRET: "+advice, identity.MinSecretBytes)
	wrong(cfg.HopSecret == "" || cfg.HopSecret != cfg.KeySecret, "FORGEQUEUE_HOP_SECRET and FORGEQUEUE_KEY_SECRET: must differ; core knows the first and must not know the second")
	wrong(cfg.OperatorKey == "" || len(cfg.OperatorKey) >= minOperatorKey, "FORGEQUEUE_OPERATOR_KEY: must have at least %d characters", minOperatorKey)
	wrong(validToken(cfg.OperatorKey.Reveal()), "FORGEQUEUE_OPERATOR_KEY: must be visible ASCII without spaces, or no header can carry it")
	wrong(cfg.Console == consoleOn || cfg.Console == consoleOff, "FORGEQUEUE_CONSOLE %q: must be on or off", cfg.Console)
	wrong(cfg.MCP.Valid(), "FORGEQUEUE_MCP %q: must be off, read or write", string(cfg.MCP))
	wrong(cfg.ConsoleSecret == "" || len(cfg.ConsoleSecret) >= session.MinSecretBytes, "FORGEQUEUE_CONSOLE_SECRET: "+advice, session.MinSecretBytes)
	wrong(cfg.ConsoleOld == "" || len(cfg.ConsoleOld) >= session.MinSecretBytes, "FORGEQUEUE_CONSOLE_SECRET_PREVIOUS: "+advice, session.MinSecretBytes)
	wrong(auth.ValidEnv(cfg.KeyEnv), "FORGEQUEUE_KEY_ENV %q: must be 1 to 16 of a-z and 0-9", cfg.KeyEnv)
	wrong(cfg.Grace >= 0 && cfg.Grace <= maxGrace, "FORGEQUEUE_GRACE %v: must be between 0s and %v", cfg.Grace, maxGrace)
	wrong(cfg.RequestTimeout >= minRequestTimeout && cfg.RequestTimeout <= maxRequestTimeout,
		"FORGEQUEUE_REQUEST_TIMEOUT %v: must be between %v and %v", cfg.RequestTimeout, minRequestTimeout, maxRequestTimeout)
	between := func(value, least, most time.Duration, name string) {
		wrong(value >= least && value <= most, "%s %v: must be between %v and %v", name, value, least, most)
	}
	between(cfg.RedisTimeout, 5*time.Millisecond, 10*time.Second, "FORGEQUEUE_REDIS_TIMEOUT")
	between(cfg.DrainNotice, 0, maxDrainNotice, "FORGEQUEUE_DRAIN_NOTICE")
	between(cfg.BreakerWindow, time.Second, 10*time.Minute, "FORGEQUEUE_BREAKER_WINDOW")
	between(cfg.BreakerOpen, 100*time.Millisecond, time.Minute, "FORGEQUEUE_BREAKER_OPEN")
	wrong(cfg.HopInFlight >= minHopInFlight && cfg.HopInFlight <= maxHopCalls, "FORGEQUEUE_HOP_IN_FLIGHT %d: must be between %d and %d", cfg.HopInFlight, minHopInFlight, maxHopCalls)
	wrong(cfg.HopParked >= 1 && cfg.HopParked <= maxHopCalls, "FORGEQUEUE_HOP_PARKED %d: must be between 1 and %d", cfg.HopParked, maxHopCalls)
	wrong(cfg.BodyMemoryMiB == 0 || cfg.BodyMemoryMiB >= minBodyMemory && cfg.BodyMemoryMiB <= maxBodyMemory,
		"FORGEQUEUE_BODY_MEMORY_MIB %d: must be 0, or between %d and %d", cfg.BodyMemoryMiB, minBodyMemory, maxBodyMemory)
	problems = append(problems, cfg.checkAddresses(), cfg.checkSignOn())
	if cfg.Logger == nil {
		_, err := telemetry.NewLogger(io.Discard, cfg.LogFormat, cfg.LogLevel)
		wrong(err == nil, "FORGEQUEUE_LOG_FORMAT, FORGEQUEUE_LOG_LEVEL: %w", err)
	}
	problems = append(problems, cfg.Tracing.Check())
	// Not with the library's error: it repeats the URL, password and all.
	redisErr := admission.CheckURL(cfg.RedisURL.Reveal())
	wrong(redisErr == nil, "REDIS_URL: %w", redisErr)
	return errors.Join(problems...)
}

// checkAddresses validates the settings of clients' addresses, and of replicas.
func (cfg Config) checkAddresses() error {
	var problems []error
	wrong := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	rate := func(value float64, name string) { // written so that NaN is wrong
		wrong(value >= 0 && value <= maxAddressRate, "%s %g: must be between 0 and %d", name, value, maxAddressRate)
	}
	burst := func(value int, name string) {
		wrong(value >= 1 && value <= maxAddressRate, "%s %d: must be between 1 and %d", name, value, maxAddressRate)
	}
	rate(cfg.IPRate, "FORGEQUEUE_IP_RATE")
	burst(cfg.IPBurst, "FORGEQUEUE_IP_BURST")
	rate(cfg.FailedKeyRate, "FORGEQUEUE_FAILED_KEY_RATE")
	burst(cfg.FailedKeyBurst, "FORGEQUEUE_FAILED_KEY_BURST")
	connections := func(value int, name string) {
		wrong(value >= 0 && value <= maxConnections, "%s %d: must be between 0 and %d", name, value, maxConnections)
	}
	connections(cfg.MaxConns, "FORGEQUEUE_MAX_CONNECTIONS")
	connections(cfg.AddressConns, "FORGEQUEUE_MAX_CONNECTIONS_PER_ADDRESS")
	wrong(request.ValidProxyHeader(cfg.ProxyHeader), "FORGEQUEUE_PROXY_HEADER %q: must be X-Forwarded-For or Forwarded", cfg.ProxyHeader)
	public, err := url.Parse(cfg.PublicURL)
	wrong(cfg.PublicURL == "" || err == nil && (public.Scheme == "http" || public.Scheme == "https") && public.Host != "" && public.Path+public.RawQuery == strings.Repeat("/", len(public.Path)) && len(public.Path) <= 1,
		"FORGEQUEUE_PUBLIC_URL %q: must be a URL such as https://jobs.example.com, without a path", cfg.PublicURL)
	wrong(cfg.Replicas >= 1 && cfg.Replicas <= maxReplicas, "FORGEQUEUE_REPLICAS %d: must be between 1 and %d", cfg.Replicas, maxReplicas)
	_, err = cfg.proxies()
	wrong(err == nil, "FORGEQUEUE_TRUSTED_PROXIES: must be networks such as 10.0.0.0/8, with commas between: %w", err)
	return errors.Join(problems...)
}

// console is what serves /console; nil where it is off.
func (cfg Config) console(shared console.Options, logger *slog.Logger) (_ func(api http.Handler) http.Handler, err error) {
	if cfg.Console != consoleOn {
		return nil, nil //nolint:nilnil // there is no console, and no error
	}
	if shared.SignOn, err = cfg.signOn(logger); err != nil {
		return nil, err
	}
	shared.Secret, shared.Previous = []byte(cmp.Or(cfg.ConsoleSecret, cfg.KeySecret)), []byte(cfg.ConsoleOld)
	made, err := console.New(shared)
	if err != nil {
		return nil, fmt.Errorf("FORGEQUEUE_CONSOLE_SECRET: %w", err)
	}
	return made.Handler, nil
}

// bodyMemory is how many bytes the bodies of requests under way and their answers may take.
func (cfg Config) bodyMemory() int64 {
	if cfg.BodyMemoryMiB > 0 {
		return cfg.BodyMemoryMiB << 20
	}
	if limit := memory.Limit(); limit > 0 {
		return max(limit/5*2, minBodyMemory<<20)
	}
	return 512 << 20
}

func (cfg Config) connLimits(proxies request.Proxies) httpserver.Connections {
	limits := httpserver.Connections{Most: cfg.MaxConns, PerAddress: cfg.AddressConns, Exempt: proxies.Trusts}
	if limits.Most == 0 {
		limits.Most = httpserver.DefaultConnections()
	}
	if limits.PerAddress == 0 {
		limits.PerAddress = max(limits.Most/4, 1)
	}
	return limits
}

func (cfg Config) proxies() (request.Proxies, error) {
	return request.ParseProxies(cfg.ProxyHeader, cfg.TrustedProxies)
}

// ipLimit and failedKeys are nil where there is no limit.
func (cfg Config) ipLimit() *admission.IPLimit {
	if cfg.IPRate <= 0 {
		return nil
	}
	return admission.NewIPLimit(admission.IPLimitOptions{PerSecond: cfg.IPRate, Burst: cfg.IPBurst})
}

func (cfg Config) failedKeys() *admission.IPLimit {
	if cfg.FailedKeyRate <= 0 {
		return nil
	}
	return admission.NewIPLimit(admission.IPLimitOptions{PerSecond: cfg.FailedKeyRate, Burst: cfg.FailedKeyBurst})
}

// hopLimits: a breaker counts a call at its start, so that the window must be longer
// than calls can take; otherwise a core that hangs would never be detected.
func (cfg Config) hopLimits() cellclient.Limits {
	return cellclient.Limits{
		InFlight:      cfg.HopInFlight,
		Parked:        cfg.HopParked,
		BreakerWindow: max(cfg.BreakerWindow, 2*cfg.RequestTimeout),
		BreakerOpen:   cfg.BreakerOpen,
	}
}

func validToken(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
