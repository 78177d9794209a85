package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/server/diagnosis"
	"github.com/forgequeue/forgequeue/shared/server/settings"
)

// diagnosisTime bounds the diagnosis, connecting included.
const diagnosisTime = 20 * time.Second

// doctor is a Diagnosis in progress.
type doctor struct{ diagnosis.Diagnosis }

// Diagnose checks the PostgreSQL in the settings as core would use it. It changes nothing. Of the
// settings, by the names of their variables, it reads only those about the database.
func Diagnose(ctx context.Context, environment map[string]string) diagnosis.Diagnosis {
	ctx, cancel := context.WithTimeout(ctx, diagnosisTime)
	defer cancel()
	var d doctor
	cfg, err := databaseConfig(environment)
	if err != nil {
		d.Add(diagnosis.LevelFail, "PostgreSQL settings", err.Error(), "set it as api-docs/config.md says")
		if cfg.DatabaseURL == "" {
			return d.Diagnosis
		}
	}
	listed, err := cfg.listed()
	if err != nil || len(listed) == 0 { // an error is said above
		d.database(ctx, cfg, nil)
		return d.Diagnosis
	}
	d.database(ctx, cfg, &listed[0])
	for i := range listed[1:] {
		d.cell(ctx, cfg, &listed[1+i])
	}
	return d.Diagnosis
}

// cell checks one cell but the home; its findings have its name in front.
func (d *doctor) cell(ctx context.Context, cfg Config, listed *cells.Config) {
	var own doctor
	cfg.DatabaseURL = listed.DSN
	own.database(ctx, cfg, listed)
	for _, f := range own.Findings {
		d.Add(f.Level, "cell "+listed.Name+": "+f.Check, f.Detail, f.Advice)
	}
}

// database checks the PostgreSQL of DatabaseURL, which is to be a cell where one is given.
func (d *doctor) database(ctx context.Context, cfg Config, as *cells.Config) {
	if !store.ReadableURL(cfg.DatabaseURL.Reveal()) {
		d.Add(diagnosis.LevelFail, "PostgreSQL", "DATABASE_URL cannot be read", "it should look like postgres://user:password@host:5432/database")
		return
	}
	info, err := store.InspectServer(ctx, cfg.DatabaseURL.Reveal())
	switch {
	case errors.Is(err, store.ErrUnavailable):
		d.Add(diagnosis.LevelFail, "PostgreSQL", err.Error(), "start the server, or correct DATABASE_URL")
		return
	case err != nil:
		d.Add(diagnosis.LevelFail, "PostgreSQL", err.Error(), "see the server's log")
		return
	}
	d.Clock, d.Doubt = info.Ahead, info.Doubt
	d.Reached = true
	d.server(info)
	d.durability(info, cfg.AllowLossy)
	d.pool(info, cfg.DatabaseConns)
	d.schema(ctx, info, cfg, as)
}

// databaseConfig reads the settings about the database; the others have their defaults, and are not
// checked.
func databaseConfig(environment map[string]string) (Config, error) {
	known := map[string]string{}
	for _, name := range []string{
		"DATABASE_URL", "FORGEQUEUE_CELLS", "FORGEQUEUE_DATABASE_CONNS", "FORGEQUEUE_DATABASE_WAIT",
		"FORGEQUEUE_ALLOW_LOSSY_DATABASE", "FORGEQUEUE_ALLOW_PLAINTEXT_DATABASE",
	} {
		if value, ok := environment[name]; ok {
			known[name] = value
		}
	}
	var cfg Config
	err := settings.Read(&cfg, known)
	return cfg, errors.Join(err, cfg.checkDatabase())
}

func (d *doctor) server(info store.ServerInfo) {
	const check = "PostgreSQL version"
	if info.Version < 150000 {
		d.Add(diagnosis.LevelFail, check, info.VersionName+" is too old", "15 or newer is needed")
	} else {
		d.Add(diagnosis.LevelOK, check, info.VersionName, "")
	}
	if info.Encoding != "UTF8" {
		d.Add(diagnosis.LevelFail, "PostgreSQL encoding", "the database's encoding is "+info.Encoding, "make the database with ENCODING 'UTF8'")
	}
	if info.Standby || info.ReadOnly == "on" {
		d.Add(diagnosis.LevelFail, "PostgreSQL writes", "the server or the role only allows reading",
			"connect to the primary: name all hosts, and add target_session_attrs=read-write to DATABASE_URL")
	}
	if info.Collation != "" && info.Collation != info.CollationNow {
		d.Add(diagnosis.LevelWarn, "PostgreSQL collation", fmt.Sprintf("the database was made with version %s of its collation, the server has %q: "+
			"indexes of other programs' text may be wrong; those of ForgeQueue sort by bytes", info.Collation, info.CollationNow),
			"REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION")
	}
	if info.Autovacuum == "off" {
		d.Add(diagnosis.LevelWarn, "PostgreSQL autovacuum", "autovacuum is off: the table of live jobs will bloat", "ALTER SYSTEM SET autovacuum = on")
	}
}

// durability checks settings that lose acknowledged jobs.
func (d *doctor) durability(info store.ServerInfo, allowed bool) {
	level, advice := diagnosis.LevelFail, "turn it on; core refuses to start otherwise"
	if allowed {
		level, advice = diagnosis.LevelWarn, "turn it on; core only starts because of FORGEQUEUE_ALLOW_LOSSY_DATABASE"
	}
	safe := true
	for _, one := range [][3]string{
		{"fsync", info.Fsync, "a crash of the machine can destroy the whole database"},
		{"full_page_writes", info.FullPageWrites, "a crash of the machine can destroy pages"},
		{"synchronous_commit", info.Commit, "a crash loses jobs that were acknowledged"},
	} {
		if one[1] == "off" {
			safe = false
			d.Add(level, "PostgreSQL "+one[0], "off: "+one[2], advice)
		}
	}
	if safe {
		d.Add(diagnosis.LevelOK, "PostgreSQL durability", "fsync and full_page_writes are on, synchronous_commit is "+info.Commit, "")
	}
}

// pool checks whether core's connections are within the limits.
func (d *doctor) pool(info store.ServerInfo, conns int32) {
	const check = "PostgreSQL connections"
	allowed, by := info.MaxConnections-info.Reserved, "max_connections"
	for _, limit := range []struct {
		most int32
		name string
	}{{info.RoleLimit, "the role's CONNECTION LIMIT"}, {info.BaseLimit, "the database's CONNECTION LIMIT"}} {
		if limit.most >= 0 && limit.most < allowed {
			allowed, by = limit.most, limit.name
		}
	}
	others := max(info.InUse-info.Ours-1, 0) // without this diagnosis
	detail := fmt.Sprintf("%d for one core (FORGEQUEUE_DATABASE_CONNS), %d allowed by %s, %d used by others, %d by cores that run",
		conns, allowed, by, others, info.Ours)
	const advice = "raise the limit, or lower FORGEQUEUE_DATABASE_CONNS; each core has a pool of its own"
	switch {
	case conns > allowed:
		d.Add(diagnosis.LevelFail, check, detail, advice)
	case conns > allowed-others:
		d.Add(diagnosis.LevelWarn, check, detail, advice)
	default:
		d.Add(diagnosis.LevelOK, check, detail, "")
	}
}

// schema checks whether all migrations are applied. It queries them only if there are any: the
// query itself would create their table.
func (d *doctor) schema(ctx context.Context, info store.ServerInfo, cfg Config, as *cells.Config) {
	const check = "migrations"
	switch {
	case info.Schema == "":
		d.Add(diagnosis.LevelFail, check, "the role's search_path names no schema that exists", "make the schema, or set search_path in DATABASE_URL")
		return
	case !info.MayCreate:
		d.Add(diagnosis.LevelFail, "PostgreSQL rights", "the role may not create tables in the schema "+info.Schema+"; core makes a partition for each day",
			"GRANT CREATE ON SCHEMA "+info.Schema+" TO the role")
	}
	if !info.Migrated {
		d.Add(diagnosis.LevelFail, check, "the schema "+info.Schema+" has no tables yet", "run `forgequeue core migrate` with the same DATABASE_URL")
		return
	}
	options := cfg.storeOptions()
	options.MaxConns, options.AllowUnsafe = 2, true // checked above
	store, err := cell.Open(ctx, options)
	if err != nil {
		d.Add(diagnosis.LevelFail, check, err.Error(), "core cannot start like this")
		return
	}
	defer store.Close()
	pending, err := store.SchemaPending(ctx)
	switch {
	case err != nil:
		d.Add(diagnosis.LevelFail, check, err.Error(), "core cannot start like this")
	case pending > 0:
		d.Add(diagnosis.LevelFail, check, fmt.Sprintf("%d are not applied", pending), "run `forgequeue core migrate` with the same DATABASE_URL")
	default:
		d.Add(diagnosis.LevelOK, check, "all are applied", "")
	}
	if as == nil || err != nil || pending > 0 {
		return
	}
	if err := checkCell(ctx, store, *as, nil); err != nil {
		d.Add(diagnosis.LevelFail, "which cell it is", err.Error(), "core cannot start like this")
	} else {
		d.Add(diagnosis.LevelOK, "which cell it is", "as FORGEQUEUE_CELLS says", "")
	}
}
