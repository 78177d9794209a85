package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// Options are the settings of a Store.
type Options struct {
	// URL is a libpq URL or keyword string.
	URL string
	// Cell is the name of a cell that is not the home cell; "" for that, and for the only database.
	Cell string
	// MaxConns bounds the pool; a call without a free connection waits for at most PoolWait.
	MaxConns int32
	PoolWait time.Duration
	// CallTime bounds a call whose context has no deadline; 0 is 30 seconds.
	CallTime time.Duration
	// Tracing makes child spans for statements; nil makes none.
	Tracing trace.TracerProvider
	// Tracer sees every statement; nil for none, or for that of Tracing.
	Tracer pgx.QueryTracer
	// ReadOnly makes every transaction a read-only one.
	ReadOnly bool
	// AllowUnsafe lets the store start on a server that can lose what it acknowledged.
	AllowUnsafe bool
	// Took, where not nil, is called with how long each call had a connection, and its operation; "" is of several callers.
	Took func(operation string, took time.Duration)
	// Logger hears of another primary, and of servers that are refused; nil for none.
	Logger *slog.Logger
}

// Store is the only access to PostgreSQL. It is safe for concurrent use.
type Store struct {
	pool     *pgxpool.Pool
	places   *seats.Seats
	primary  *primary
	poolWait time.Duration
	callTime time.Duration
	// cell is Options.Cell.
	cell string
	// distributed says that Citus distributes the schema.
	distributed atomic.Bool
	// refused counts the calls without a free connection in time.
	refused atomic.Int64
	// makePartitions creates missing partitions; nil creates none.
	makePartitions func(context.Context) error
	// making holds a value while a call creates partitions.
	making chan struct{}
}

// isolation is the level of every transaction, single statements included.
const isolation = "read committed"

const (
	connectTime = 5 * time.Second
	// callTime bounds a call whose context has no deadline: a connection that died silently must
	// not block a background duty until TCP notices.
	callTime = 30 * time.Second
)

// Bound sets the deadline of a context without one.
func (s *Store) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bound := ctx.Deadline(); bound {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.callTime)
}

// A session that died between BEGIN and COMMIT must not keep its row locks. In milliseconds, as PostgreSQL shows it.
const (
	idleSetting = "idle_in_transaction_session_timeout"
	idleTime    = "30000"
)

// plannerSettings keep every hot statement on the index that it was written for.
// Without them one autoanalyze at a bad moment (few live rows among many dead)
// turned 4 ms completes into 1,190 ms, and 26 k jobs/s into 13 k. Statements that
// want the planner's freedom (reports, verify) run in a session without them.
func plannerSettings() map[string]string {
	return map[string]string{
		"plan_cache_mode":   "force_generic_plan",
		"enable_seqscan":    "off",
		"enable_bitmapscan": "off",
		// A disabled scan costs ten billion, which makes the planner compile the statement: 40 to
		// 190 ms at each execution, to read a table of four rows.
		"jit": "off",
	}
}

// Open connects, and refuses a server that is too old or can lose acknowledged work.
func Open(ctx context.Context, options Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(options.URL)
	if err != nil {
		return nil, errors.New("store: the database URL cannot be read; it should look like postgres://user:password@host:5432/database")
	}
	params := config.ConnConfig.RuntimeParams
	maps.Copy(params, plannerSettings())
	params["timezone"] = "UTC"
	params["application_name"] = "forgequeue-core"
	// A statement after a lock must see what the lock's last holder committed. A database or a role
	// may have another default.
	params["default_transaction_isolation"] = isolation
	params[idleSetting] = idleTime
	if options.ReadOnly {
		params["default_transaction_read_only"] = "on"
	}
	config.ConnConfig.Tracer = options.tracer()
	config.MaxConns = options.MaxConns
	config.MaxConnIdleTime = 5 * time.Minute
	s := &Store{
		poolWait: options.PoolWait, callTime: cmp.Or(options.CallTime, callTime), cell: options.Cell, making: make(chan struct{}, 1),
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		registerUUID(conn.TypeMap())
		return s.planForCitus(ctx, conn)
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		// A server that accepts connections and does not answer must not block the pool's places
		// for the two minutes that pgxpool allows.
		config.ConnConfig.ConnectTimeout = connectTime
	}
	known := newPrimary(config.ConnConfig, options.Logger)
	config.ConnConfig.OnPgError = known.onError(config.ConnConfig.OnPgError)
	if len(known.hosts) > 1 {
		known.survey(ctx)
		config.BeforeConnect = known.primaryFirst
	}
	config.ConnConfig.ValidateConnect = known.validate(config.ConnConfig.ValidateConnect)
	if !options.ReadOnly {
		config.PrepareConn = known.current
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	s.pool, s.places, s.primary = pool, newPlaces(int(config.MaxConns), options.Took), known
	for _, check := range []func(context.Context) error{
		s.checkPooler, func(ctx context.Context) error { return s.checkServer(ctx, options.AllowUnsafe) }, s.checkDropped,
		s.checkCitus,
	} {
		if err := check(ctx); err != nil {
			pool.Close()
			return nil, err
		}
	}
	return s, nil
}

// tracer is nil without tracing. Spans have the statement's text, which is constant, and no
// arguments.
func (o Options) tracer() pgx.QueryTracer {
	if o.Tracing == nil || o.Tracer != nil {
		return o.Tracer
	}
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(o.Tracing), otelpgx.WithDisableAcquireTracer(), otelpgx.WithSpanNameFunc(statementName))
}

// Close waits for running calls and closes every connection.
func (s *Store) Close() { s.pool.Close() }

// Connections gives the state of the pool.
func (s *Store) Connections() metrics.Connections {
	stat := s.pool.Stat()
	timeline, oldTimeline, otherSystem := s.primary.state()
	return metrics.Connections{
		Idle: stat.IdleConns(), Used: stat.AcquiredConns(), Max: stat.MaxConns(), Refused: s.refused.Load(), Waiting: s.waits(),
		Timeline: timeline, OldTimeline: oldTimeline, OtherSystem: otherSystem,
	}
}

// PlaintextHosts lists the other machines that a database URL may connect to without TLS: every
// host in it, by libpq's rules, environment included. Anything weaker than sslmode=require falls
// back to plain text silently. A URL that cannot be parsed has none: Open refuses it.
func PlaintextHosts(databaseURL string) []string {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil
	}
	var hosts []string
	add := func(host string, encrypted bool) {
		ip := net.ParseIP(host)
		local := strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" || (ip != nil && ip.IsLoopback())
		if !encrypted && !local && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	add(config.Host, config.TLSConfig != nil)
	for _, fallback := range config.Fallbacks {
		add(fallback.Host, fallback.TLSConfig != nil)
	}
	return hosts
}

// Writable says whether PostgreSQL answers and takes writes; ErrReadOnly says that it only answers.
func (s *Store) Writable(ctx context.Context) error {
	conn, err := s.Acquire(WithClass(ctx, ClassOutcomes))
	if err != nil {
		return fmt.Errorf("store: writable: %w", err)
	}
	defer conn.Release()
	var readOnly string
	if err := conn.QueryRow(ctx, `SHOW transaction_read_only`).Scan(&readOnly); err != nil {
		return fmt.Errorf("store: writable: %w", Classify(err))
	}
	if readOnly == "on" {
		return ErrReadOnly
	}
	return nil
}

const serverSettingsSQL = `
SELECT current_setting('server_version_num')::integer AS version,
       current_setting('fsync')                       AS fsync,
       current_setting('full_page_writes')            AS full_page_writes,
       current_setting('synchronous_commit')          AS synchronous_commit,
       current_setting('server_encoding')             AS encoding,
       current_setting('transaction_isolation')       AS isolation`

func (s *Store) checkServer(ctx context.Context, allowUnsafe bool) error {
	rows, err := s.pool.Query(ctx, serverSettingsSQL)
	if err != nil {
		return fmt.Errorf("store: PostgreSQL cannot be reached: %w", err)
	}
	type settings struct {
		Version                                                       int32
		Fsync, FullPageWrites, SynchronousCommit, Encoding, Isolation string
	}
	server, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[settings])
	if err != nil {
		return fmt.Errorf("store: PostgreSQL cannot be reached: %w", err)
	}
	if server.Version < 150000 {
		return fmt.Errorf("store: PostgreSQL %d is too old; 15 or newer is needed", server.Version/10000)
	}
	if server.Encoding != "UTF8" {
		return fmt.Errorf("store: the database's encoding is %s; make it with ENCODING 'UTF8'", server.Encoding)
	}
	if server.Isolation != isolation {
		return fmt.Errorf("store: sessions are %q although core asks for %q: a pooler in between drops what core asks for; "+
			"connect to PostgreSQL itself", server.Isolation, isolation)
	}
	var unsafe []string
	if server.Fsync == "off" {
		unsafe = append(unsafe, "fsync = off")
	}
	if server.FullPageWrites == "off" {
		unsafe = append(unsafe, "full_page_writes = off")
	}
	if server.SynchronousCommit == "off" {
		unsafe = append(unsafe, "synchronous_commit = off")
	}
	if len(unsafe) > 0 && !allowUnsafe {
		return fmt.Errorf("store: this PostgreSQL can lose acknowledged jobs (%s); turn the settings on, "+
			"or accept the loss with FORGEQUEUE_ALLOW_LOSSY_DATABASE=true", strings.Join(unsafe, ", "))
	}
	return nil
}

// Acquire takes a connection in the context's class, waiting for at most PoolWait: a request that
// cannot be served soon is refused while its caller still waits (D8). A caller that holds one must
// not take a second: that could deadlock.
func (s *Store) Acquire(ctx context.Context) (*Conn, error) {
	waiting, cancel := context.WithTimeout(ctx, s.poolWait)
	defer cancel()
	seat, err := s.places.Take(waiting, workOf(ctx))
	if err == nil {
		var conn *pgxpool.Conn
		if conn, err = s.pool.Acquire(waiting); err == nil {
			return &Conn{conn, seat}, nil
		}
		seat.Leave()
	}
	// In all cases PostgreSQL was not asked: nothing took effect.
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: the request ended before a database connection was free: %w", ErrOverloaded, err)
	case errors.Is(err, seats.ErrFull), errors.Is(err, seats.ErrDisplaced):
		s.refused.Add(1)
		return nil, fmt.Errorf("%w: too many requests wait for a database connection", ErrOverloaded)
	case errors.Is(err, context.DeadlineExceeded):
		s.refused.Add(1)
		return nil, fmt.Errorf("%w: no database connection was free within %v", ErrOverloaded, s.poolWait)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// InTx runs work in one transaction at READ COMMITTED: each statement sees what was committed
// before it. Work may run twice: if a row found no partition, see retryWithPartitions.
func (s *Store) InTx(ctx context.Context, work func(pgx.Tx) error) error {
	return s.InShortTx(ctx, nil, func(tx pgx.Tx) (*pgx.Batch, error) { return nil, work(tx) })
}

// InShortTx is InTx with two round trips less: the statements that first queues are sent together
// with BEGIN, and those of the batch that work returns together with COMMIT. Either may be nil.
// Where the answer to the last batch is lost, the outcome is unknown.
func (s *Store) InShortTx(ctx context.Context, first func(*pgx.Batch), work func(pgx.Tx) (last *pgx.Batch, err error)) error {
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	return s.retryWithPartitions(ctx, func() error { return s.tryTx(ctx, first, work) })
}

func (s *Store) tryTx(ctx context.Context, first func(*pgx.Batch), work func(pgx.Tx) (*pgx.Batch, error)) error {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	opening := &pgx.Batch{}
	opening.BeginTx(pgx.TxOptions{})
	if first != nil {
		first(opening)
	}
	opened := conn.SendBatch(ctx, opening)
	err = opened.Close()
	tx := opened.Tx()
	var last *pgx.Batch
	if err == nil {
		last, err = work(tx)
	}
	if err != nil {
		s.rollBack(ctx, tx)
		return definite(err)
	}
	if err := commit(ctx, tx, last); err != nil {
		s.rollBack(ctx, tx)
		return classifyCommit(err)
	}
	return nil
}

// rollBack ends a transaction even if the caller has left; the connection is closed if that fails.
func (s *Store) rollBack(ctx context.Context, tx pgx.Tx) {
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.poolWait)
	defer cancel()
	_ = tx.Rollback(undo)
}

// commit runs the last statements of a transaction and commits it.
func commit(ctx context.Context, tx pgx.Tx, last *pgx.Batch) error {
	if last == nil || last.Len() == 0 {
		return tx.Commit(ctx)
	}
	last.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() == "ROLLBACK" {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	return tx.SendBatch(ctx, last).Close()
}

// Query runs a single statement and collects its rows.
func Query[T any](ctx context.Context, s *Store, row pgx.RowToFunc[T], sql string, args Args) (collected []T, err error) {
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	err = s.retryWithPartitions(ctx, func() error {
		conn, err := s.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		rows, err := conn.Query(ctx, sql, args)
		if err != nil {
			return Classify(err)
		}
		collected, err = pgx.CollectRows(rows, row)
		return Classify(err)
	})
	if err != nil {
		return nil, err
	}
	return collected, nil
}

// Exec runs a single statement that gives no rows.
func Exec(ctx context.Context, s *Store, sql string, args Args) error {
	_, err := Query(ctx, s, func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }, sql, args)
	return err
}

// Tx is a transaction, for those above the packages that have statements, who pass it on.
type Tx = pgx.Tx

// Querier is a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}
