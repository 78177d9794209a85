package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

const oldestRedis = 7

// RedisBinary is an installed Redis or Valkey server.
type RedisBinary struct {
	Path    string
	Version string // such as "7.0.15"
	Major   int    // such as 7
}

func redisFolders() []string {
	return []string{"/usr/bin", "/usr/local/bin", "/usr/sbin", "/opt/homebrew/bin", "/opt/valkey/bin", "/opt/redis/bin"}
}

// FindRedis looks for valkey-server, then for redis-server, on the PATH and in
// the usual folders. When there is none that is new enough, the error is a
// *NotFoundError.
func FindRedis(ctx context.Context) (RedisBinary, error) {
	return redisSearch{path: os.Getenv("PATH"), folders: redisFolders()}.run(ctx)
}

type redisSearch struct {
	path    string
	folders []string
}

func (s redisSearch) run(ctx context.Context) (RedisBinary, error) {
	var places findings
	for _, name := range []string{"valkey-server", "redis-server"} {
		var finds []string
		for _, file := range onPath(s.path, name) {
			b, err := probeRedis(ctx, file)
			if err == nil {
				return b, nil
			}
			finds = append(finds, fmt.Sprintf("%s: %v", file, err))
		}
		places.note(name+" on the PATH", finds)
		for _, dir := range s.folders {
			file := filepath.Join(dir, name)
			if !executable(file) {
				places.note(file, nil)
				continue
			}
			b, err := probeRedis(ctx, file)
			if err == nil {
				return b, nil
			}
			places.note(file, []string{err.Error()})
		}
	}
	if err := ctx.Err(); err != nil {
		return RedisBinary{}, err
	}
	return RedisBinary{}, &NotFoundError{Wanted: fmt.Sprintf("Valkey or Redis %d or later", oldestRedis), Looked: places}
}

// redisVersion reads "Redis server v=7.0.15 sha=..." and "Valkey server v=8.1.0 ...".
var redisVersion = regexp.MustCompile(`^(?:Redis|Valkey) server v=((\d+)[^ ]*)`)

// probeRedis asks a server for its version.
func probeRedis(ctx context.Context, file string) (RedisBinary, error) {
	b := RedisBinary{Path: file}
	out, err := output(ctx, file, "--version")
	if err != nil {
		return b, fmt.Errorf("--version: %w", err)
	}
	match := redisVersion.FindStringSubmatch(out)
	if match == nil {
		return b, fmt.Errorf("--version says %q", out)
	}
	b.Version = match[1]
	if b.Major, err = strconv.Atoi(match[2]); err != nil {
		return b, err
	}
	if b.Major < oldestRedis {
		return b, fmt.Errorf("version %s, too old", b.Version)
	}
	return b, nil
}
