package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// A server that was the primary before a failover, and comes back as if it still were, takes writes:
// target_session_attrs=read-write cannot tell it from the real one. PostgreSQL's timeline can: each
// promotion begins a higher one, which is in the name of the WAL file that is written. So a connection
// is used only if it is to
//
//   - a server that is not in recovery,
//   - of the database system that core started on,
//   - on the highest timeline of which this core has heard.
//
// It is checked when the connection is made, again each time it is taken from the pool, and
// WatchPrimary asks every host of the URL every few seconds: sessions on a primary that was replaced
// while it lived (a partition) are closed then. A core that starts asks all hosts first.
//
// A session may also be read-only although its server is no standby: by default_transaction_read_only of the
// database or the role, which the session keeps when it is taken back, or because a server was demoted without
// ending its sessions. Such a session is used for reads, and for a second only; the first write that is refused
// where they were accepted closes all older sessions.

const (
	// surveyEvery is how often WatchPrimary asks all hosts.
	surveyEvery = 5 * time.Second
	// surveyTime bounds one survey; a host that is gone does not answer.
	surveyTime = 3 * time.Second
	// readOnlyTime is how long a session that takes no writes is used.
	readOnlyTime = time.Second
)

// readOnlyCode is the SQLSTATE of a write that a read-only session refuses.
const readOnlyCode = "25006"

// sessionKey is where a connection keeps its session.
const sessionKey = "forgequeue/session"

// session is what is known of a connection of the pool. One goroutine at a time has the connection.
type session struct {
	place
	made time.Time
}

// place is what a server says of itself.
type place struct {
	standby bool
	// system is the database system's identifier, the same for a primary and its standbys.
	system string
	// timeline is 0 where the server does not tell.
	timeline uint32
	// readOnly says that the session takes no writes.
	readOnly bool
}

// placeSQL: pg_control_checkpoint() would tell a promoted server's old timeline until its next
// checkpoint ends. A standby's is that of what it has replayed.
const placeSQL = `
SELECT pg_is_in_recovery(), (SELECT system_identifier FROM pg_control_system()),
       CASE WHEN pg_is_in_recovery()
            THEN (SELECT GREATEST(c.timeline_id, r.min_recovery_end_timeline) FROM pg_control_checkpoint() AS c, pg_control_recovery() AS r)::text
            ELSE 'x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,
       current_setting('transaction_read_only')`

// askPlace asks a server. One that lacks the functions, as some that only speak PostgreSQL's
// protocol, has the timeline 0.
func askPlace(ctx context.Context, conn *pgconn.PgConn) (place, error) {
	results, err := conn.Exec(ctx, placeSQL).ReadAll()
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		return place{}, nil
	}
	if err != nil {
		return place{}, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 4 {
		return place{}, errors.New("store: the server's timeline: not one row")
	}
	row := results[0].Rows[0]
	text, base := string(row[2]), 10
	if len(text) > 1 && text[0] == 'x' {
		text, base = text[1:], 16
	}
	timeline, err := strconv.ParseUint(text, base, 32)
	if err != nil {
		return place{}, fmt.Errorf("store: the server's timeline: %w", err)
	}
	return place{standby: string(row[0]) == "t", system: string(row[1]), timeline: uint32(timeline), readOnly: string(row[3]) == "on"}, nil
}

// errStandby refuses a server that cannot be written to.
var errStandby = fmt.Errorf("%w: it is a standby: it follows another server and takes no writes", ErrReadOnly)

// WrongPrimaryError refuses a server that takes writes and must not get any.
type WrongPrimaryError struct {
	// Reason is metrics.OldTimeline or metrics.OtherSystem.
	Reason string
	Words  string
}

func (e *WrongPrimaryError) Error() string { return e.Words }

// primary knows which servers may be written to. It is safe for concurrent use.
type primary struct {
	log *slog.Logger
	// hosts are configurations of the URL's hosts, one each.
	hosts []*pgx.ConnConfig

	mu sync.Mutex
	// system and timeline are those of the newest primary known; empty and 0 at first.
	system   string
	timeline uint32
	// host is the primary by the last survey that found it, as host:port: connections are tried there first.
	host string
	// doubted is when a session that took writes refused one: older sessions are not used any more.
	doubted time.Time
	// onNew is called before the first connection on a higher timeline is used; nil for nothing.
	onNew func()
	// refused counts refusals by reason; told are those already logged.
	refused map[string]int64
	told    map[string]bool
}

func newPrimary(config *pgx.ConnConfig, log *slog.Logger) *primary {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &primary{log: log, hosts: eachHost(config), refused: map[string]int64{}, told: map[string]bool{}}
}

// eachHost splits a configuration by its hosts. Several entries of one host are ways to speak to it,
// with TLS and without.
func eachHost(config *pgx.ConnConfig) []*pgx.ConnConfig {
	var hosts []*pgx.ConnConfig
	known := map[string]*pgx.ConnConfig{}
	for _, entry := range entries(config) {
		address := addressOf(entry.Host, entry.Port)
		if one, ok := known[address]; ok {
			one.Fallbacks = append(one.Fallbacks, entry)
			continue
		}
		one := config.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = entry.Host, entry.Port, entry.TLSConfig, nil
		one.ValidateConnect, one.Tracer = nil, nil
		known[address] = one
		hosts = append(hosts, one)
	}
	return hosts
}

// entries are what a connection tries, in order.
func entries(config *pgx.ConnConfig) []*pgconn.FallbackConfig {
	first := &pgconn.FallbackConfig{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}
	return append([]*pgconn.FallbackConfig{first}, config.Fallbacks...)
}

func addressOf(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// primaryFirst tries the host first that was the primary in the last survey: one that lost its power
// takes the whole time limit of each connection.
func (p *primary) primaryFirst(_ context.Context, config *pgx.ConnConfig) error {
	p.mu.Lock()
	host := p.host
	p.mu.Unlock()
	all := entries(config)
	var first, others []*pgconn.FallbackConfig
	for _, entry := range all {
		if addressOf(entry.Host, entry.Port) == host {
			first = append(first, entry)
		} else {
			others = append(others, entry)
		}
	}
	if len(first) == 0 || len(others) == 0 {
		return nil
	}
	all = slices.Concat(first, others)
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
	return nil
}

// validate makes the check of a new connection, after the one that the URL asks for. A refusal makes
// pgx try the next host.
func (p *primary) validate(given pgconn.ValidateConnectFunc) pgconn.ValidateConnectFunc {
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		found, err := askPlace(ctx, conn)
		if err != nil {
			return err
		}
		if found.standby {
			return errStandby
		}
		if given != nil {
			if err := given(ctx, conn); err != nil {
				if found.readOnly { // the URL asks for a session that takes writes
					return fmt.Errorf("%w: %w", ErrReadOnly, err)
				}
				return err
			}
		}
		if err := p.accept(ctx, found, conn.Conn().RemoteAddr().String()); err != nil {
			return err
		}
		conn.CustomData()[sessionKey] = &session{place: found, made: time.Now()}
		return nil
	}
}

// onError notices a session that refuses a write; given then says whether the connection stays.
func (p *primary) onError(given pgconn.PgErrorHandler) pgconn.PgErrorHandler {
	return func(conn *pgconn.PgConn, refused *pgconn.PgError) bool {
		if one, ok := conn.CustomData()[sessionKey].(*session); ok && refused.Code == readOnlyCode && !one.readOnly {
			one.readOnly = true
			p.doubt()
		}
		return given(conn, refused)
	}
}

// doubt is called when a session that took writes refuses one: the others may be to the same server.
func (p *primary) doubt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubted = time.Now()
	p.log.Warn("PostgreSQL has become read-only; reconnecting")
}

// accept decides about a server that takes writes, and remembers a higher timeline.
func (p *primary) accept(ctx context.Context, found place, address string) error {
	if found.timeline == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.system == "":
		p.system, p.timeline = found.system, found.timeline
	case found.system == p.system && found.timeline > p.timeline:
		p.raise(ctx, found.timeline)
	}
	return p.judge(ctx, found, address)
}

// raise is called with the lock held.
func (p *primary) raise(ctx context.Context, timeline uint32) {
	p.log.WarnContext(ctx, "PostgreSQL has a new primary", "timeline", timeline, "before", p.timeline)
	p.timeline = timeline
	clear(p.told)
	if p.onNew != nil {
		p.onNew()
	}
}

// OnNewPrimary sets what is called when PostgreSQL has a new primary, before the first statement on
// it. It must not use the store.
func (s *Store) OnNewPrimary(forget func()) {
	s.primary.mu.Lock()
	defer s.primary.mu.Unlock()
	s.primary.onNew = forget
}

// judge refuses a server that takes writes and is not the primary. Each refusal is counted, a server's
// first is logged. It is called with the lock held.
func (p *primary) judge(ctx context.Context, found place, address string) error {
	var refusal *WrongPrimaryError
	switch {
	case found.system != p.system:
		refusal = &WrongPrimaryError{metrics.OtherSystem, fmt.Sprintf(
			"it is of another database system (%s) than the one that core works on (%s): not a copy of it; "+
				"if it replaces that one, run `core migrate` and start core again", found.system, p.system)}
	case found.timeline < p.timeline:
		refusal = &WrongPrimaryError{metrics.OldTimeline, fmt.Sprintf(
			"it takes writes on timeline %d, but another server was promoted and is on timeline %d: it was the primary before a failover; "+
				"stop it, and make it a standby of the new one (pg_rewind, or a new base backup)", found.timeline, p.timeline)}
	default:
		return nil
	}
	p.refused[refusal.Reason]++
	if key := address + refusal.Reason; !p.told[key] {
		p.told[key] = true
		p.log.ErrorContext(ctx, "a PostgreSQL server is not used", "server", address, "reason", refusal.Reason, "error", refusal.Words)
	}
	return refusal
}

// current says whether a connection of the pool is still to the newest primary, and takes writes as far as that
// is known; the pool closes one that is not.
func (p *primary) current(_ context.Context, conn *pgx.Conn) (bool, error) {
	one, ok := conn.PgConn().CustomData()[sessionKey].(*session)
	if !ok {
		return true, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case one.made.Before(p.doubted), one.readOnly && time.Since(one.made) > readOnlyTime:
		return false, nil
	}
	return one.timeline == 0 || one.timeline >= p.timeline, nil
}

// survey asks all hosts at once, and remembers the highest timeline. A host that cannot be asked says
// nothing.
func (p *primary) survey(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	found := make([]place, len(p.hosts))
	var group sync.WaitGroup
	for i, host := range p.hosts {
		group.Go(func() {
			conn, err := pgx.ConnectConfig(ctx, host.Copy())
			if err != nil {
				return
			}
			defer func() { _ = conn.Close(ctx) }()
			if one, err := askPlace(ctx, conn.PgConn()); err == nil {
				found[i] = one
			}
		})
	}
	group.Wait()
	p.learn(ctx, found)
}

// learn remembers what the hosts said, in their order.
func (p *primary) learn(ctx context.Context, found []place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	system := p.system
	for _, one := range found {
		if system == "" && one.timeline != 0 && !one.standby { // before the first connection
			system = one.system
		}
	}
	highest := p.timeline
	for _, one := range found {
		if one.system == system {
			highest = max(highest, one.timeline)
		}
	}
	switch {
	case p.system == "":
		p.system, p.timeline = system, highest
	case highest > p.timeline:
		p.raise(ctx, highest)
	}
	for i, one := range found {
		if one.standby || one.timeline == 0 {
			continue
		}
		address := addressOf(p.hosts[i].Host, p.hosts[i].Port)
		if p.judge(ctx, one, address) == nil {
			p.host = address
		}
	}
}

// WatchPrimary asks the hosts of a URL with several every few seconds, until ctx ends. With one host
// there is nothing to compare.
func (s *Store) WatchPrimary(ctx context.Context) error {
	if len(s.primary.hosts) < 2 {
		return nil
	}
	for wait.About(ctx, surveyEvery) == nil {
		s.primary.survey(ctx)
	}
	return nil
}

// state gives the timeline, 0 where it is not known, and the refusals by reason.
func (p *primary) state() (timeline uint32, oldTimeline, otherSystem int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.timeline, p.refused[metrics.OldTimeline], p.refused[metrics.OtherSystem]
}
