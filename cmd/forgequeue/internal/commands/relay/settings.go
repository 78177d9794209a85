package relay

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/server/httpserver"
	"github.com/forgequeue/forgequeue/shared/server/secret"
	"github.com/forgequeue/forgequeue/shared/server/settings"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// Settings are those of `forgequeue relay`, from the environment; a flag of the same name goes before.
type Settings struct {
	DatabaseURL   secret.Text   `env:"FORGEQUEUE_RELAY_DATABASE_URL"                       doc:"The database with your own tables and the outbox, postgres://user:password@host:5432/database. Required; or --database-url."`
	Batch         int           `env:"FORGEQUEUE_RELAY_BATCH"          envDefault:"500"    doc:"Jobs in one request at most, 1 to 1000. Default 500."`
	Senders       int           `env:"FORGEQUEUE_RELAY_SENDERS"        envDefault:"4"      doc:"Batches that are sent at once, 1 to 100. The relay uses two connections to the database more. Default 4."`
	Poll          time.Duration `env:"FORGEQUEUE_RELAY_POLL"           envDefault:"1s"     doc:"How often the outbox is read without a notification, a duration of at least 10ms. Default 1s."`
	Lease         time.Duration `env:"FORGEQUEUE_RELAY_LEASE"          envDefault:"30s"    doc:"After what time another relay sends the batch of one that was killed, 1s to 1h. Default 30s."`
	Retain        time.Duration `env:"FORGEQUEUE_RELAY_RETAIN"         envDefault:"0s"     doc:"How long sent rows are kept, with the id of their job, a duration such as 24h; the same in every relay. Default 0s: they are deleted when they are sent."`
	MetricsListen string        `env:"FORGEQUEUE_RELAY_METRICS_LISTEN"                     doc:"Address of /metrics, and for callers on this machine /debug/pprof, host:port; keep it private. Default none."`
	LogFormat     string        `env:"FORGEQUEUE_LOG_FORMAT"           envDefault:"text"   doc:"Format of the log on standard error, json or text. Default text."`
	LogLevel      string        `env:"FORGEQUEUE_LOG_LEVEL"            envDefault:"info"   doc:"Lowest level that is logged: debug, info, warn or error. Default info."`
}

// parse reads the settings, then the flags that are given. The error has every problem.
func parse(a *cli.App, command *cobra.Command) (Settings, error) {
	var s Settings
	given := map[string]string{}
	for field := range reflect.TypeFor[Settings]().Fields() {
		name := field.Tag.Get("env")
		if name == databaseVariable {
			continue // read like a key, from a file too
		}
		if value := a.Getenv(name); value != "" {
			given[name] = value
		}
		flag := command.Flag(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(name, "FORGEQUEUE_RELAY_"), "FORGEQUEUE_"), "_", "-")))
		if flag != nil && flag.Changed {
			given[name] = flag.Value.String()
		}
	}
	var problems []error
	if err := settings.Read(&s, given); err != nil {
		problems = append(problems, err)
	}
	if s.MetricsListen != "" && !httpserver.ValidAddress(s.MetricsListen) {
		problems = append(problems, fmt.Errorf("FORGEQUEUE_RELAY_METRICS_LISTEN %q: must be host:port", s.MetricsListen))
	}
	if _, err := telemetry.NewLogger(io.Discard, s.LogFormat, s.LogLevel); err != nil && len(problems) == 0 {
		problems = append(problems, fmt.Errorf("FORGEQUEUE_LOG_FORMAT, FORGEQUEUE_LOG_LEVEL: %w", err))
	}
	var err error
	if s.DatabaseURL, err = databaseURL(a, command); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return s, cli.Environment(errors.Join(problems...))
	}
	return s, nil
}

// flags are the settings as flags; their values are read as the variables' are.
func flags(command *cobra.Command) {
	f := command.Flags()
	f.Int("batch", 500, "jobs in one request at most, 1 to 1000")
	f.Int("senders", 4, "batches that are sent at once, 1 to 100")
	f.Duration("poll", time.Second, "how often the outbox is read without a notification")
	f.Duration("lease", 30*time.Second, "after what time another relay sends the batch of one that was killed, 1s to 1h")
	f.Duration("retain", 0, "how long sent rows are kept; 0: they are deleted when they are sent")
	f.String("metrics-listen", "", "address of /metrics, host:port; keep it private")
}
