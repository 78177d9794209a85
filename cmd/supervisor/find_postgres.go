package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

const oldestPostgres = 15

// PostgresBinaries is an installed PostgreSQL server.
type PostgresBinaries struct {
	Dir     string // holds postgres and initdb
	Version string // such as "15.18"
	Major   int    // such as 15
}

func (b PostgresBinaries) program(name string) string { return filepath.Join(b.Dir, name) }

// postgresFolders is where packages put servers that they keep off the PATH.
func postgresFolders() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                                   // Red Hat, from postgresql.org
		"/usr/lib/postgresql*/bin",                           // SUSE
		"/usr/libexec/postgresql*",                           // Alpine
		"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew
		"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
		"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
		"/Library/PostgreSQL/*/bin",                          // EDB's installer
		"/usr/local/pgsql/bin",                               // make install
	}
}

// FindPostgres looks for a PostgreSQL server that is new enough: on the PATH,
// where pg_config points, then in the folders of the distributions. The first
// place that has one wins, with its newest if it has several. When none has,
// the error is a *NotFoundError.
func FindPostgres(ctx context.Context) (PostgresBinaries, error) {
	return findPostgresFor(ctx, 0)
}

// findPostgresFor is FindPostgres, but prefers the major version that a data
// folder was made with: an upgrade of the machine that leaves the old server
// beside the new one must not lock the data out. No server has version 0.
func findPostgresFor(ctx context.Context, major int) (PostgresBinaries, error) {
	all, err := postgresSearch{path: os.Getenv("PATH"), folders: postgresFolders()}.run(ctx)
	if err != nil {
		return PostgresBinaries{}, err
	}
	return prefer(all, major), nil
}

func prefer(all []PostgresBinaries, major int) PostgresBinaries {
	i := slices.IndexFunc(all, func(b PostgresBinaries) bool { return b.Major == major })
	return all[max(i, 0)]
}

type postgresSearch struct {
	path    string
	folders []string
}

// run returns every server that is new enough, the best first, at least one.
func (s postgresSearch) run(ctx context.Context) ([]PostgresBinaries, error) {
	var all []PostgresBinaries
	var places findings
	look := func(where string, dirs []string) {
		found, finds := probeAll(ctx, dirs)
		all = append(all, found...)
		places.note(where, finds)
	}

	var dirs []string
	for _, file := range onPath(s.path, "postgres") {
		dirs = append(dirs, binFolder(file))
	}
	look("PATH", dirs)

	if configs := onPath(s.path, "pg_config"); len(configs) == 0 {
		places.note("pg_config --bindir", []string{"pg_config is not on the PATH"})
	} else if dir, err := output(ctx, configs[0], "--bindir"); err != nil {
		places.note("pg_config --bindir", []string{err.Error()})
	} else {
		look("pg_config --bindir", []string{dir})
	}

	for _, pattern := range s.folders {
		dirs, _ := filepath.Glob(pattern) // errs on a bad pattern only
		look(pattern, dirs)
	}
	if err := ctx.Err(); err != nil {
		return nil, err // what was found may be a mere timeout
	}
	if len(all) == 0 {
		return nil, &NotFoundError{Wanted: fmt.Sprintf("PostgreSQL %d or later", oldestPostgres), Looked: places}
	}
	return all, nil
}

// binFolder is the folder of a postgres on the PATH. That is often a link, and
// initdb lies beside its target.
func binFolder(file string) string {
	if target, err := filepath.EvalSymlinks(file); err == nil && executable(filepath.Join(filepath.Dir(target), "initdb")) {
		return filepath.Dir(target)
	}
	return filepath.Dir(file)
}

// probeAll returns the usable servers of some folders, the newest first, and
// for the reader what was found in each.
func probeAll(ctx context.Context, dirs []string) (all []PostgresBinaries, finds []string) {
	for _, dir := range dirs {
		b, err := probePostgres(ctx, dir)
		if err != nil {
			finds = append(finds, fmt.Sprintf("%s: %v", dir, err))
			continue
		}
		finds = append(finds, fmt.Sprintf("%s: version %s", dir, b.Version))
		all = append(all, b)
	}
	slices.SortStableFunc(all, func(a, b PostgresBinaries) int { return b.Major - a.Major })
	return all, finds
}

// postgresVersion reads "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)";
// "17beta1" and "18devel" are versions too.
var postgresVersion = regexp.MustCompile(`^postgres \([^)]*\) ((\d+)[^ ]*)`)

// probePostgres asks the server in a folder for its version.
func probePostgres(ctx context.Context, dir string) (PostgresBinaries, error) {
	b := PostgresBinaries{Dir: dir}
	if !executable(b.program("postgres")) {
		return b, fmt.Errorf("no postgres in it")
	}
	out, err := output(ctx, b.program("postgres"), "--version")
	if err != nil {
		return b, fmt.Errorf("postgres --version: %w", err)
	}
	match := postgresVersion.FindStringSubmatch(out)
	if match == nil {
		return b, fmt.Errorf("postgres --version says %q", out)
	}
	b.Version = match[1]
	b.Major, err = strconv.Atoi(match[2])
	switch {
	case err != nil:
		return b, err
	case b.Major < oldestPostgres:
		return b, fmt.Errorf("version %s, too old", b.Version)
	case !executable(b.program("initdb")):
		return b, fmt.Errorf("version %s, but no initdb beside it", b.Version)
	}
	return b, nil
}
