// Package app is the public part of core: its settings, and Run.
package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/httpserver"
	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/redisurl"
	"github.com/forgequeue/forgequeue/shared/server/seats"
	"github.com/forgequeue/forgequeue/shared/server/secret"
	"github.com/forgequeue/forgequeue/shared/server/settings"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// Config are core's settings. api-docs/config.md is written from the tags.
type Config struct {
	Listen            string        `env:"FORGEQUEUE_CORE_LISTEN"             envDefault:"127.0.0.1:8081" doc:"Address of the internal API, host:port. Only gateways need to reach it. Default 127.0.0.1:8081."`
	MetricsListen     string        `env:"FORGEQUEUE_CORE_METRICS_LISTEN"     envDefault:"127.0.0.1:9091" doc:"Address of /metrics, and for callers on this machine /debug/pprof, host:port; keep it private. Default 127.0.0.1:9091."`
	DatabaseURL       secret.Text   `env:"DATABASE_URL"                                                   doc:"PostgreSQL 15 or newer, postgres://user:password@host:5432/database. Required."`
	DatabaseConns     int32         `env:"FORGEQUEUE_DATABASE_CONNS"          envDefault:"16"             doc:"Maximum number of connections to PostgreSQL, 2 to 1000. Default 16."`
	DatabaseWait      time.Duration `env:"FORGEQUEUE_DATABASE_WAIT"           envDefault:"2s"             doc:"How long a request waits for a free connection before it is refused, a duration such as 2s. Default 2s."`
	Cells             string        `env:"FORGEQUEUE_CELLS"                                               doc:"Path of a JSON file that lists the installation's cells, where it has several databases; the same for every core. See cells.md. Default none: the one database is that of DATABASE_URL."`
	ServeCells        []string      `env:"FORGEQUEUE_SERVE_CELLS"                                         doc:"Names of the cells that this core serves, comma-separated; each has its own connections and background work. Default all in FORGEQUEUE_CELLS."`
	HomeURL           string        `env:"FORGEQUEUE_HOME_URL"                                            doc:"URL of the home cell's cores, such as http://core:8081/cells/home, where this core serves only other cells. They read changes of tenants, plans and keys there. Default this core itself."`
	OldDatabaseURL    secret.Text   `env:"FORGEQUEUE_OLD_DATABASE_URL"                                    doc:"Only for core verify --after-failover: the primary that was replaced by a standby, running where no core reaches it. Nothing is written there. Default none."`
	RedisURL          secret.Text   `env:"REDIS_URL"                                                      doc:"Redis or Valkey, redis://, rediss:// or unix://; a cluster or Sentinel too, see operations.md. Optional: without it a job that another core stored is found by a poll, up to 250 ms later. Default none."`
	HopSecret         secret.Text   `env:"FORGEQUEUE_HOP_SECRET"                                          doc:"Verifies that a call comes from a gateway, at least 32 bytes, the same in gateway and core. Required; openssl rand -base64 32 makes one."`
	HopSecretPrevious secret.Text   `env:"FORGEQUEUE_HOP_SECRET_PREVIOUS"                                 doc:"The old secret, also accepted while the secret is being changed. Default none."`
	LogFormat         string        `env:"FORGEQUEUE_LOG_FORMAT"              envDefault:"json"           doc:"Format of the log on standard error, json or text. Default json."`
	LogLevel          string        `env:"FORGEQUEUE_LOG_LEVEL"               envDefault:"info"           doc:"Lowest level that is logged: debug, info, warn or error. Default info."`
	Grace             time.Duration `env:"FORGEQUEUE_GRACE"                   envDefault:"30s"            doc:"How long requests in flight may take to end after SIGTERM, a duration such as 30s. 0s to 10m. Default 30s."`
	RetainFinished    int           `env:"FORGEQUEUE_RETAIN_FINISHED_DAYS"    envDefault:"7"              doc:"Days for which completed and cancelled jobs are kept, 1 to 400; 0 keeps them forever, and lists get slower with each day. Default 7."`
	RetainDead        int           `env:"FORGEQUEUE_RETAIN_DEAD_DAYS"        envDefault:"30"             doc:"Days for which dead letters, and the failed attempts and the output of all jobs, are kept, 1 to 400; 0 keeps them forever. Default 30."`
	RetainAudit       int           `env:"FORGEQUEUE_RETAIN_AUDIT_DAYS"       envDefault:"365"            doc:"Days for which audit entries are kept, 0 to 3650; 0 keeps them forever. Default 365."`
	FairBy            string        `env:"FORGEQUEUE_FAIR_BY"                 envDefault:"time"           doc:"What workers that serve many tenants, and calls of push queues, are divided by among tenants with waiting jobs, by weight: time, that their jobs take, or jobs, how many start. Default time."`
	MaxRunning        int64         `env:"FORGEQUEUE_MAX_RUNNING"             envDefault:"0"              doc:"Jobs of all tenants that may run at once, the same in every core; 0 means no cap. With a cap, claims run one at a time. Default 0."`
	MetricsQueues     string        `env:"FORGEQUEUE_METRICS_QUEUES"                                      doc:"Queues with metrics of their own (forgequeue_queue_…), as TENANT_ID/QUEUE, comma-separated, at most 50. Default none."`
	PushKey           secret.Text   `env:"FORGEQUEUE_PUSH_SECRETS_KEY"                                    doc:"Encrypts the secrets of queues in push mode, at least 32 bytes, the same in every core. Without it no queue can be in push mode. Default none; openssl rand -base64 32 makes one."`
	PushKeyPrevious   secret.Text   `env:"FORGEQUEUE_PUSH_SECRETS_KEY_PREVIOUS"                           doc:"The old key, also used to decrypt while the key is being changed; cores re-encrypt the secrets that use it. Default none."`
	PushAllow         string        `env:"FORGEQUEUE_PUSH_ALLOW"                                          doc:"Networks in CIDR notation, comma-separated, such as 10.1.0.0/16, that queues in push mode may call although they are private or reserved; without TLS too. Default none."`
	PushInFlight      int           `env:"FORGEQUEUE_PUSH_IN_FLIGHT"          envDefault:"512"            doc:"Concurrent calls of one core to the destinations of queues in push mode, 8 to 65536; one tenant may use a quarter of them, one destination an eighth. Default 512."`
	AllowLossy        bool          `env:"FORGEQUEUE_ALLOW_LOSSY_DATABASE"    envDefault:"false"          doc:"Start even if PostgreSQL runs with fsync, full_page_writes or synchronous_commit off, and so can lose acknowledged jobs. Default false."`
	AllowPlaintext    bool          `env:"FORGEQUEUE_ALLOW_PLAINTEXT_DATABASE" envDefault:"false"         doc:"Start even if the connection to a remote PostgreSQL is not encrypted. Default false."`
	// Tracing says whether spans are made, and where they are sent.
	Tracing telemetry.Export

	// Brokers are those that jobs can be published to; each main says which its program has.
	Brokers []Broker `env:"-" json:"-"`
	// Listener and MetricsListener, where given, are used instead of listening. Run closes them.
	Listener        net.Listener `env:"-"`
	MetricsListener net.Listener `env:"-"`
	// Logger, where given, replaces the one made from LogFormat and LogLevel.
	Logger *slog.Logger `env:"-"`
	// Processors, where given, are the process's seats, which it shares with others in it.
	Processors *seats.Seats `env:"-"`
}

// Broker is one kind of broker that jobs can be published to: see core/brokers.
type Broker = broker.Protocol

// maxRetainDays bounds data in partitions by day: a list opens all of them, measured up to this,
// see api-docs/operations.md. maxAuditDays bounds a plain table.
const (
	// What shares of workers are of.
	fairByTime, fairByJobs = "time", "jobs"

	maxRetainDays = 400
	maxAuditDays  = 3650
)

// FromEnv reads the process's environment. The error has every problem, not only the first.
func FromEnv() (Config, error) { return Parse(env.ToMap(os.Environ())) }

// Parse reads settings by the names of their environment variables; others have their default, and
// a secret may be in a file that its NAME_FILE names. The error has every problem.
func Parse(environment map[string]string) (Config, error) {
	var cfg Config
	err := settings.Read(&cfg, environment)
	return cfg, errors.Join(err, cfg.check())
}

// check checks the settings; the error names each invalid one by its variable, and never contains a
// secret.
func (cfg Config) check() error {
	var problems []error
	wrong := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	const advice = "must have at least %d bytes; openssl rand -base64 32 makes one"
	wrong(cfg.Listener != nil || httpserver.ValidAddress(cfg.Listen), "FORGEQUEUE_CORE_LISTEN %q: must be host:port", cfg.Listen)
	wrong(cfg.MetricsListener != nil || httpserver.ValidAddress(cfg.MetricsListen), "FORGEQUEUE_CORE_METRICS_LISTEN %q: must be host:port", cfg.MetricsListen)
	wrong(len(cfg.HopSecret) >= identity.MinSecretBytes, "FORGEQUEUE_HOP_SECRET: "+advice, identity.MinSecretBytes)
	wrong(cfg.HopSecretPrevious == "" || len(cfg.HopSecretPrevious) >= identity.MinSecretBytes, "FORGEQUEUE_HOP_SECRET_PREVIOUS: "+advice, identity.MinSecretBytes)
	wrong(cfg.Grace >= 0 && cfg.Grace <= 10*time.Minute, "FORGEQUEUE_GRACE %v: must be between 0s and 10m", cfg.Grace)
	wrong(cfg.RetainFinished >= 0 && cfg.RetainFinished <= maxRetainDays, "FORGEQUEUE_RETAIN_FINISHED_DAYS %d: must be between 1 and %d, or 0 for ever; each day is a partition, and more of them were not found to work", cfg.RetainFinished, maxRetainDays)
	wrong(cfg.RetainAudit >= 0 && cfg.RetainAudit <= maxAuditDays, "FORGEQUEUE_RETAIN_AUDIT_DAYS %d: must be between 0 and %d", cfg.RetainAudit, maxAuditDays)
	wrong(cfg.RetainDead >= 0 && cfg.RetainDead <= maxRetainDays, "FORGEQUEUE_RETAIN_DEAD_DAYS %d: must be between 1 and %d, or 0 for ever; each day is a partition, and more of them were not found to work", cfg.RetainDead, maxRetainDays)
	wrong(cfg.FairBy == fairByTime || cfg.FairBy == fairByJobs, "FORGEQUEUE_FAIR_BY %q: must be time or jobs", cfg.FairBy)
	wrong(cfg.MaxRunning >= 0, "FORGEQUEUE_MAX_RUNNING %d: must be 0 or more", cfg.MaxRunning)
	_, queuesErr := cfg.metricsQueues()
	wrong(queuesErr == nil, "FORGEQUEUE_METRICS_QUEUES: %w", queuesErr)
	wrong(cfg.PushKey == "" || len(cfg.PushKey) >= seal.MinKeyBytes, "FORGEQUEUE_PUSH_SECRETS_KEY: "+advice, seal.MinKeyBytes)
	wrong(cfg.PushKeyPrevious == "" || len(cfg.PushKeyPrevious) >= seal.MinKeyBytes, "FORGEQUEUE_PUSH_SECRETS_KEY_PREVIOUS: "+advice, seal.MinKeyBytes)
	wrong(cfg.PushKeyPrevious == "" || cfg.PushKey != "", "FORGEQUEUE_PUSH_SECRETS_KEY_PREVIOUS: is of use only beside FORGEQUEUE_PUSH_SECRETS_KEY")
	wrong(cfg.PushInFlight >= 8 && cfg.PushInFlight <= 65536, "FORGEQUEUE_PUSH_IN_FLIGHT %d: must be between 8 and 65536", cfg.PushInFlight)
	_, allowErr := outbound.ParseGuard(cfg.PushAllow)
	wrong(allowErr == nil, "FORGEQUEUE_PUSH_ALLOW: %w", allowErr)
	problems = append(problems, cfg.Tracing.Check())
	if cfg.RedisURL != "" {
		_, err := redisurl.Parse(cfg.RedisURL.Reveal())
		wrong(err == nil, "REDIS_URL: %w", err)
	}
	if cfg.Logger == nil {
		_, err := telemetry.NewLogger(io.Discard, cfg.LogFormat, cfg.LogLevel)
		wrong(err == nil, "FORGEQUEUE_LOG_FORMAT, FORGEQUEUE_LOG_LEVEL: %w", err)
	}
	return errors.Join(append(problems, cfg.checkDatabase())...)
}

// maxMetricsQueues bounds the series of single queues.
const maxMetricsQueues = 50

// metricsQueues are the queues with metrics of their own.
func (cfg Config) metricsQueues() ([]tenant.QueueKey, error) {
	var named []tenant.QueueKey
	for text := range strings.SplitSeq(cfg.MetricsQueues, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		owner, name, _ := strings.Cut(text, "/")
		id, err := uuid.Parse(owner)
		if err != nil || !api.ValidName(name) {
			return nil, fmt.Errorf("%q must be the id of a tenant and the name of a queue, such as 0198d8a2-5d9c-7c53-8f6e-6b1c2f0a9d10/mail", text)
		}
		named = append(named, tenant.QueueKey{Tenant: id, Name: name})
	}
	if len(named) > maxMetricsQueues {
		return nil, fmt.Errorf("has %d queues, at most %d are allowed", len(named), maxMetricsQueues)
	}
	return named, nil
}

// checkDatabase checks the settings that `core migrate` needs as well.
func (cfg Config) checkDatabase() error {
	var problems []error
	if cfg.DatabaseURL == "" {
		problems = append(problems, errors.New("DATABASE_URL: is required, such as postgres://user:password@host:5432/database"))
	}
	if cfg.DatabaseConns < 2 || cfg.DatabaseConns > 1000 {
		problems = append(problems, fmt.Errorf("FORGEQUEUE_DATABASE_CONNS %d: must be between 2 and 1000", cfg.DatabaseConns))
	}
	if cfg.DatabaseWait < 10*time.Millisecond || cfg.DatabaseWait > time.Minute {
		problems = append(problems, fmt.Errorf("FORGEQUEUE_DATABASE_WAIT %v: must be between 10ms and 1m", cfg.DatabaseWait))
	}
	if !cfg.AllowPlaintext {
		problems = append(problems, plaintext("DATABASE_URL", cfg.DatabaseURL), plaintext("FORGEQUEUE_OLD_DATABASE_URL", cfg.OldDatabaseURL))
	}
	return errors.Join(append(problems, cfg.checkCells())...)
}

// plaintext refuses a connection to a remote server that would not be encrypted.
func plaintext(name string, url secret.Text) error {
	if len(store.PlaintextHosts(url.Reveal())) == 0 {
		return nil
	}
	return errors.New(name + ": the connection to a remote server would not be encrypted; add " +
		"sslmode=require (or verify-full), or accept it with FORGEQUEUE_ALLOW_PLAINTEXT_DATABASE=true")
}
