package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/wait"
)

// pidFile is the content of postmaster.pid. The format is PostgreSQL's
// src/include/utils/pidfile.h; pg_ctl reads it the same way.
type pidFile struct {
	pid    int    // line 1; negative in the file for a single-user server
	status string // line 8: starting, stopping, ready, standby
}

// readPidFile returns false when there is none, or none that makes sense: it is
// written in place, so a reader may see half of it.
func readPidFile(dataDir string) (pidFile, bool) {
	data, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return pidFile{}, false
	}
	lines := strings.Split(string(data), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid == 0 {
		return pidFile{}, false
	}
	f := pidFile{pid: max(pid, -pid)}
	if len(lines) >= 8 {
		f.status = strings.TrimSpace(lines[7])
	}
	return f, true
}

// ready reports whether this server takes connections. The file may be an old one,
// of another process.
func (p *Postgres) ready() bool {
	f, ok := readPidFile(p.dataDir)
	return ok && f.pid == p.Pid() && (f.status == "ready" || f.status == "standby")
}

// mustBeFree returns a *HeldError if a running server uses the data folder. It
// waits for one that is stopping, as after the kill of its parent. PostgreSQL
// itself handles what a dead one left.
func mustBeFree(ctx context.Context, dataDir string) error {
	deadline := time.Now().Add(lingering)
	for {
		f, ok := readPidFile(dataDir)
		if !ok || !isPostgres(f.pid) {
			return nil
		}
		if f.status != "stopping" || time.Now().After(deadline) {
			return &HeldError{Server: "PostgreSQL", Dir: dataDir, Pid: f.pid}
		}
		if wait.For(ctx, 5*pollEvery) != nil {
			return fmt.Errorf("waiting for pid %d to leave %s: %w", f.pid, dataDir, context.Cause(ctx))
		}
	}
}

// isPostgres distinguishes a running server from a process that got its pid later.
func isPostgres(pid int) bool {
	name := processName(pid)
	return name == "postgres" || name == "postmaster"
}
