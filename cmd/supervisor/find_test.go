package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// fake writes a program that only prints its version.
func fake(t *testing.T, dir, name, version string) string {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	file := filepath.Join(dir, name)
	must(t, os.WriteFile(file, []byte("#!/bin/sh\necho '"+version+"'\n"), 0o755))
	return file
}

func fakePostgres(t *testing.T, dir, version string) {
	t.Helper()
	fake(t, dir, "postgres", "postgres (PostgreSQL) "+version)
	fake(t, dir, "initdb", "initdb (PostgreSQL) "+version)
}

func TestFindPostgresOrder(t *testing.T) {
	t.Parallel()
	root := tempDir(t)
	for dir, version := range map[string]string{
		"pkg/9/bin": "9.6.24", "pkg/15/bin": "15.3 (Debian 15.3-1)", "pkg/17/bin": "17beta1", "pkg/16/bin": "16.1",
		"onpath": "15.9", "configured": "18.0",
	} {
		fakePostgres(t, filepath.Join(root, dir), version)
	}
	fake(t, filepath.Join(root, "config"), "pg_config", filepath.Join(root, "configured"))
	must(t, os.Mkdir(filepath.Join(root, "links"), 0o755))
	must(t, os.Symlink("../onpath/postgres", filepath.Join(root, "links", "postgres")))
	pattern := filepath.Join(root, "pkg", "*", "bin")

	for name, c := range map[string]struct {
		path, dir, version string
		major              int
	}{
		"the newest of a pattern":             {"", "pkg/17/bin", "17beta1", 17},
		"pg_config before the folders":        {"config", "configured", "18.0", 18},
		"the PATH first, through its link":    {"links", "onpath", "15.9", 15},
		"what is too old on the PATH is left": {"pkg/9/bin", "pkg/17/bin", "17beta1", 17},
	} {
		search := postgresSearch{path: filepath.Join(root, c.path), folders: []string{pattern}}
		if c.path == "" {
			search.path = "relative/bin:"
		}
		all, err := search.run(t.Context())
		must(t, err)
		want := PostgresBinaries{Dir: filepath.Join(root, c.dir), Version: c.version, Major: c.major}
		if all[0] != want {
			t.Errorf("%s: got %+v, want %+v", name, all[0], want)
		}
	}
}

func TestFindPostgresSaysWhereItLooked(t *testing.T) {
	t.Parallel()
	root := tempDir(t)
	fakePostgres(t, filepath.Join(root, "13"), "13.4")
	fake(t, filepath.Join(root, "15"), "postgres", "postgres (PostgreSQL) 15.1")
	fake(t, filepath.Join(root, "odd"), "postgres", "hello")
	must(t, os.Mkdir(filepath.Join(root, "empty"), 0o755))
	_, err := postgresSearch{path: "", folders: []string{filepath.Join(root, "*"), "/nowhere/*"}}.run(t.Context())
	if _, ok := errors.AsType[*NotFoundError](err); !ok {
		t.Fatalf("got %v", err)
	}
	mustSay(t, err,
		"PostgreSQL 15 or later is not installed here",
		"\n    PATH: nothing",
		"\n    pg_config --bindir: pg_config is not on the PATH",
		root+"/13: version 13.4, too old",
		root+"/15: version 15.1, but no initdb beside it",
		root+`/odd: postgres --version says "hello"`,
		root+"/empty: no postgres in it",
		"\n    /nowhere/*: nothing",
	)

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (postgresSearch{}).run(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a search cut short says %v", err)
	}
}

func TestFolderDecidesBetweenServers(t *testing.T) {
	t.Parallel()
	all := []PostgresBinaries{{Major: 17}, {Major: 15}}
	for major, want := range map[int]int{0: 17, 15: 15, 16: 17, 17: 17} {
		if got := prefer(all, major); got.Major != want {
			t.Errorf("folder of version %d: got %d, want %d", major, got.Major, want)
		}
	}
}

func TestFindRedis(t *testing.T) {
	t.Parallel()
	root := tempDir(t)
	redis := fake(t, filepath.Join(root, "a"), "redis-server", "Redis server v=7.2.4 sha=00000000:0 malloc=jemalloc")
	valkey := fake(t, filepath.Join(root, "b"), "valkey-server", "Valkey server v=8.1.0 sha=00000000:0")
	old := fake(t, filepath.Join(root, "old"), "redis-server", "Redis server v=6.0.16 sha=00000000:0")
	both := filepath.Dir(redis) + string(filepath.ListSeparator) + filepath.Dir(valkey)

	for name, c := range map[string]struct {
		search redisSearch
		want   RedisBinary
	}{
		"valkey first":     {redisSearch{path: both}, RedisBinary{valkey, "8.1.0", 8}},
		"redis if alone":   {redisSearch{path: filepath.Dir(redis)}, RedisBinary{redis, "7.2.4", 7}},
		"off the PATH too": {redisSearch{path: filepath.Dir(old), folders: []string{filepath.Dir(redis)}}, RedisBinary{redis, "7.2.4", 7}},
	} {
		got, err := c.search.run(t.Context())
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}

	_, err := redisSearch{path: filepath.Dir(old), folders: []string{"/nowhere"}}.run(t.Context())
	if _, ok := errors.AsType[*NotFoundError](err); !ok {
		t.Fatalf("got %v", err)
	}
	mustSay(t, err, "Valkey or Redis 7 or later is not installed here", old+": version 6.0.16, too old",
		"valkey-server on the PATH: nothing", "/nowhere/redis-server: nothing")
}
