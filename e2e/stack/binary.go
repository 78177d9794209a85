package stack

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is a program under test, built once for the test process.
type binary struct {
	// name is that of the file, folder that of its package, in module.
	name, folder, module string
	// clock: its clock can be set by FaultClockEnv. All that reads the time is compiled again for it.
	clock bool
	once  sync.Once
	path  string
	err   error
}

//nolint:gochecknoglobals // one build for the process is the point of it
var (
	forgequeue = binary{name: "forgequeue", folder: ".", module: product}
	otherClock = binary{name: "forgequeue-clock", folder: ".", module: product, clock: true}
	bridge     = binary{name: "forgequeue-bridge", folder: "./forgequeue-bridge", module: product}
	kubernetes = binary{name: "kubernetes", folder: "./kubernetes", module: parsers}
	promql     = binary{name: "promql", folder: "./promql", module: parsers}
)

// The modules of the programs. That of the parsers is outside of the workspace.
const product, parsers = "cmd/forgequeue", "e2e/parsers"

// FaultClockEnv is how far the clock of a service with ClusterOptions.Clocks is
// ahead, a duration.
const FaultClockEnv = "FORGEQUEUE_FAULT_CLOCK"

// raced says whether the program under test has the race detector: where the tests have
// it, in the long fault suite. It then takes several times the CPU, and the packages' own
// tests, which run both services too, have it always.
func raced() bool { return raceEnabled && os.Getenv("FORGEQUEUE_FAULTS") == "long" }

// Binary gives the path of the program.
func Binary(tb testing.TB) string {
	tb.Helper()
	return forgequeue.get(tb)
}

// Bridge gives the path of forgequeue-bridge.
func Bridge(tb testing.TB) string {
	tb.Helper()
	return bridge.get(tb)
}

// Kubernetes gives the path of the parser of Kubernetes' manifests.
func Kubernetes(tb testing.TB) string {
	tb.Helper()
	return kubernetes.get(tb)
}

// PromQL gives the path of the parser of PromQL.
func PromQL(tb testing.TB) string {
	tb.Helper()
	return promql.get(tb)
}

func (b *binary) get(tb testing.TB) string {
	tb.Helper()
	b.once.Do(func() { b.path, b.err = b.build() })
	if b.err != nil {
		tb.Fatalf("stack: %v", b.err)
	}
	return b.path
}

// remove removes what was built.
func (b *binary) remove() {
	if dir := filepath.Dir(b.path); strings.HasPrefix(filepath.Base(dir), buildFolder) {
		_ = os.RemoveAll(dir)
	}
}

const buildFolder = "fq-binary-"

// build gives this process a copy of its own. What it is a copy of stays in the user's
// cache, where Go finds it up to date: to link it takes longer than many a test, and
// several packages need it at once.
func (b *binary) build() (string, error) {
	kept, release, err := b.kept()
	if err != nil {
		return "", err
	}
	defer release()
	args := append([]string{"build", "-tags=nomsgpack,full", "-o", kept}, BuildFlags()...) // complete, as it is released
	if b.clock {
		overlay, err := faultClock(filepath.Dir(kept))
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	if raced() && b.module == product {
		args = append(args, "-race")
	}
	command := exec.CommandContext(context.Background(), "go", append(args, b.folder)...)
	command.Dir = Repository(b.module)
	if b.module == parsers {
		command.Env = append(os.Environ(), "GOWORK=off")
	}
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, output)
	}
	dir, err := os.MkdirTemp("", buildFolder)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, b.name)
	return path, duplicate(kept, path)
}

// BuildFlags are those of .ci/flags, so that what the tests have compiled is not compiled again.
func BuildFlags() []string {
	return []string{"-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-pgo=off", "-buildvcs=false"}
}

// faultClock writes which file the build takes instead of shared/server/clock's.
func faultClock(folder string) (overlay string, err error) {
	replaced, err := filepath.Abs(Repository("shared", "server", "clock", "clock.go"))
	if err != nil {
		return "", err
	}
	by, err := filepath.Abs(Repository("e2e", "stack", "testdata", "clock.go"))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{replaced: by}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// kept is where the program of this clone is kept, for this process alone until
// release is called.
func (b *binary) kept() (path string, release func(), err error) {
	clone, err := filepath.Abs(Repository())
	if err != nil {
		return "", nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %t %d", clone, raced(), os.Getuid()))
	all := filepath.Join(cache, "forgequeue-e2e")
	folder := filepath.Join(all, fmt.Sprintf("%x", sum[:8]))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", nil, err
	}
	removeUnused(all, folder)
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		_ = lock.Close()
		return "", nil, err
	}
	if err := os.Chtimes(lock.Name(), time.Time{}, time.Now()); err != nil {
		_ = lock.Close()
		return "", nil, err
	}
	return filepath.Join(folder, b.name), func() { _ = lock.Close() }, nil
}

// removeUnused removes what was built for other clones and used by none of them for a day: each clone has a folder of
// its own, and a machine that makes a new clone for each run would fill its disk.
func removeUnused(all, own string) {
	folders, _ := os.ReadDir(all)
	for _, folder := range folders {
		path := filepath.Join(all, folder.Name())
		if path == own {
			continue
		}
		if lock, err := os.Stat(filepath.Join(path, "lock")); err == nil && time.Since(lock.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(path)
		}
	}
}

func duplicate(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		_ = target.Close()
		return err
	}
	return target.Close()
}
