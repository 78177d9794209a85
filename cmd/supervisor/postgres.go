package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/shared/wait"
)

// PostgresOptions say which PostgreSQL to run, and where. Only DataDir must be
// given.
type PostgresOptions struct {
	Binaries PostgresBinaries // zero: as FindPostgres, but the data folder's version if that is installed too
	DataDir  string           // made when absent or empty, kept at Stop
	Database string           // exists when StartPostgres returns; empty: only "postgres" does
	User     string           // the superuser that initdb makes and URL names; empty: "postgres"
	LogFile  string           // appended to; empty: DataDir + ".log"

	// Settings of postgresql.conf that override the file's and this package's.
	Settings map[string]string
}

// Postgres is a running PostgreSQL server.
type Postgres struct {
	*Process
	dataDir string
	sockets string
	user    string
}

const (
	postgresPort   = "5432" // only names the socket: nothing listens on it
	postgresSocket = ".s.PGSQL." + postgresPort

	// lingering is how long the backends of a killed server may use the data
	// folder. They notice the death of their postmaster by themselves, but one
	// that is busy does so late.
	lingering = 15 * time.Second
)

// StartPostgres starts a PostgreSQL server on a data folder, which it
// initialises when there is none, and returns when it takes connections, on a
// Unix socket only. As root it runs it as the user postgres, or else as the user
// nobody. ctx bounds the start, not the life: that ends with Stop.
//
// It is an error when the folder belongs to another major version, to another
// user or to a running server (*HeldError), or is no data folder of PostgreSQL.
// It is never removed.
func StartPostgres(ctx context.Context, opts PostgresOptions) (*Postgres, error) {
	s, err := prepare(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	p, err := s.startPatiently(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.ensureDatabase(ctx, s.opts.Database); err != nil {
		_ = p.Stop(ctx)
		return nil, fmt.Errorf("postgres: database %q: %w", s.opts.Database, err)
	}
	return p, nil
}

// URL addresses a database of the server, for psql and pgx alike.
func (p *Postgres) URL(database string) string {
	// Not url.Values: libpq does not know that a + may stand for a space.
	query := "host=" + strings.ReplaceAll(url.QueryEscape(p.sockets), "+", "%20") + "&port=" + postgresPort
	u := url.URL{Scheme: "postgres", User: url.User(p.user), Path: "/" + database, RawQuery: query}
	return u.String()
}

// postgresStart is a start under way, its options complete.
type postgresStart struct {
	opts    PostgresOptions
	account account
}

// prepare checks everything that can be checked before a server runs, and
// leaves a data folder that one can run on.
func prepare(ctx context.Context, opts PostgresOptions) (*postgresStart, error) {
	if opts.DataDir == "" {
		return nil, errors.New("no DataDir given")
	}
	if opts.User == "" {
		opts.User = "postgres"
	}
	for _, name := range []string{"port", "unix_socket_directories", "data_directory"} {
		if _, ok := opts.Settings[name]; ok {
			return nil, fmt.Errorf("%s cannot be set: the supervisor does", name)
		}
	}
	var err error
	if opts.DataDir, err = resolve(opts.DataDir); err != nil {
		return nil, err
	}
	if opts.LogFile == "" {
		opts.LogFile = opts.DataDir + ".log"
	}
	if opts.Binaries, err = chooseBinaries(ctx, opts.Binaries, opts.DataDir); err != nil {
		return nil, err
	}
	s := &postgresStart{opts: opts}
	if s.account, err = serverAccount(); err != nil {
		return nil, err
	}
	return s, s.prepareFolder(ctx)
}

func chooseBinaries(ctx context.Context, given PostgresBinaries, dataDir string) (PostgresBinaries, error) {
	switch {
	case given.Dir == "":
		major, _ := folderVersion(dataDir)
		return findPostgresFor(ctx, major)
	case given.Major == 0:
		b, err := probePostgres(ctx, given.Dir)
		if err != nil {
			return b, fmt.Errorf("%s: %w", given.Dir, err)
		}
		return b, nil
	}
	return given, nil
}

// errLingers is a start that fails because of a dead server's last backends.
var errLingers = errors.New("processes of the previous server are still there")

// startPatiently starts the server, and retries while backends of a killed one
// remain.
func (s *postgresStart) startPatiently(ctx context.Context) (*Postgres, error) {
	deadline := time.Now().Add(lingering)
	for {
		p, err := s.startOnce(ctx)
		if !errors.Is(err, errLingers) || time.Now().After(deadline) {
			return p, err
		}
		if wait.For(ctx, 100*time.Millisecond) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (s *postgresStart) startOnce(ctx context.Context) (*Postgres, error) {
	sockets, remove, err := socketFolder(s.opts.DataDir, postgresSocket, func(folder string) error {
		return errors.Join(s.account.own(folder), s.account.mustReach(ctx, s.opts.Binaries.program("postgres"), folder))
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	log, err := openLog(s.opts.LogFile)
	if err != nil {
		remove()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	cmd := command(s.account.credential, s.opts.Binaries.program("postgres"), s.args(sockets)...)
	cmd.Stdout, cmd.Stderr = log.File, log.File
	p := &Postgres{dataDir: s.opts.DataDir, sockets: sockets, user: s.opts.User, Process: &Process{
		name: "postgres", cmd: cmd, log: log, tidy: remove,
		// Fast shutdown: sessions are ended, everything is written. Then immediate.
		stopSignals: []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL},
	}}
	// SIGQUIT, the immediate shutdown, when this process dies. SIGINT, the fast one,
	// waits for a checkpoint, for a standby, and without end if a backend hangs.
	// After SIGQUIT all processes end within 5 s, and no commit is lost: the next
	// start replays the log, as after any crash.
	if err := p.launch(syscall.SIGQUIT); err != nil {
		remove()
		return nil, errors.Join(fmt.Errorf("postgres: %w", err), log.Close())
	}
	err = p.await(ctx, p.ready)
	if err != nil && strings.Contains(err.Error(), "pre-existing shared memory block") {
		err = fmt.Errorf("%w: %w", errLingers, err)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (s *postgresStart) args(sockets string) []string {
	settings := map[string]string{
		"listen_addresses":        "",
		"unix_socket_permissions": "0700",
		"max_connections":         "200",
		"shared_buffers":          "128MB",
		"fsync":                   "on",
		"synchronous_commit":      "on",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"logging_collector":       "off", // it would take the log away from LogFile
	}
	maps.Copy(settings, s.opts.Settings)
	settings["port"] = postgresPort
	// A list: without the quotes, spaces and more in the path would divide it.
	settings["unix_socket_directories"] = `"` + strings.ReplaceAll(sockets, `"`, `""`) + `"`
	args := []string{"-D", s.opts.DataDir}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}
